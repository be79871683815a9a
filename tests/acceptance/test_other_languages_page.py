"""docs/other-languages.md, pasted as it stands there: curl and Node on a real sidecar."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from harness.kafka import create_topics, fresh_name, read_all, wait_until
from harness.sidecar import Sidecar
from harness.snippets import fences, replaced

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from halfhitch.embedded import EmbeddedKafka

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

PAGE = "docs/other-languages.md"
SOON_S = 60.0


class Door:
    """A sidecar on a port, and a topic of its own."""

    def __init__(self, sidecar: Sidecar, bootstrap: str, topic: str) -> None:
        self.bootstrap, self.topic = bootstrap, topic
        told = sidecar.log.read_text().partition("serving on ")[2].split()[0].rstrip(",;")
        self.address = told

    def values(self) -> list[bytes | None]:
        return [found.value for found in read_all(self.bootstrap, self.topic)]

    def shell(self, command: str) -> str:
        command = replaced(command, "http://127.0.0.1:8340", self.address)
        done = subprocess.run(["sh", "-ec", command], capture_output=True, text=True, check=True)
        return done.stdout


@pytest.fixture
def door(kafka: EmbeddedKafka, tmp_path: Path) -> Iterator[Door]:
    topic = fresh_name("orders")
    create_topics(kafka.bootstrap, {topic: 1})
    settings = {
        "HALFHITCH_TOPICS_PREFIX": topic + "-",
        "HALFHITCH_TOPICS_CREATE": "true",
        "HALFHITCH_CHECKS_IMMUNITY_S": "2",
        "HALFHITCH_DRAIN_S_MAX": "1",
    }
    with Sidecar(kafka.bootstrap, tmp_path, **settings) as sidecar:
        sidecar.wait_ready()
        yield Door(sidecar, kafka.bootstrap, topic)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_curl_prepares_and_commits(door: Door) -> None:
    prepare, commit, raw = [text.partition("$ ")[2] for text in fences(PAGE, "console")]
    prepare, _, expected = prepare.partition("\n{")
    prepared = json.loads(door.shell(replaced(prepare, '"orders"', f'"{door.topic}"')))
    assert list(json.loads("{" + expected)) == list(prepared)

    commit, _, expected = commit.partition("\n")
    committed = json.loads(door.shell(replaced(commit, "AQAAAA...", prepared["handle"])))
    assert committed == json.loads(expected)
    wait_until(door.values, SOON_S, what="the message")
    assert door.values() == [b'{"order": 1}']

    told = door.shell(replaced(raw, "topics/orders", f"topics/{door.topic}"))
    assert told.startswith("HTTP/1.1 201")
    assert "half-handle: " in told.lower()


def _node() -> bool:
    if shutil.which("node") is None:
        return False
    told = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True)
    return int(told.stdout.lstrip("v").partition(".")[0]) >= 20


@pytest.mark.skipif(not _node(), reason="there is no Node 20")
def test_a_service_in_javascript_dies_between_the_commits_and_is_asked(
    door: Door, tmp_path: Path
) -> None:
    (program,) = fences(PAGE, "js")
    program = replaced(program, 'topic: "orders"', f'topic: "{door.topic}"')
    (tmp_path / "shop.mjs").write_text(program)
    environment = {**os.environ, "HALFHITCH_ADDRESS": door.address}

    def node(*arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["node", "shop.mjs", *arguments],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    for arguments, line in (
        (["order-1"], "order-1 is committed\n"),
        (["order-2", "crash"], ""),
        ([], "asked about order-2: commit\n"),
    ):
        with node(*arguments) as process:
            assert process.stdout is not None
            try:
                assert process.stdout.readline() == line
                if not arguments:
                    wait_until(lambda: len(door.values()) == 2, SOON_S, what="both orders")
            finally:
                process.kill()
    assert [json.loads(value or b"")["order"] for value in door.values()] == ["order-1", "order-2"]


@pytest.mark.skipif(not _node(), reason="there is no Node 20")
def test_what_has_no_row_is_fenced_and_rolled_back(door: Door, tmp_path: Path) -> None:
    """Prepared, and dead before the local commit: no row can come any more."""
    (program,) = fences(PAGE, "js")
    program = replaced(program, 'topic: "orders"', f'topic: "{door.topic}"')
    dies = replaced(program, "  if (!(await insert(", "  process.exit(1);\n  if (!(await insert(")
    (tmp_path / "dies.mjs").write_text(dies)
    (tmp_path / "shop.mjs").write_text(program)
    environment = {**os.environ, "HALFHITCH_ADDRESS": door.address}
    died = subprocess.run(
        ["node", "dies.mjs", "order-3"], cwd=tmp_path, env=environment, check=False
    )
    assert died.returncode == 1
    with subprocess.Popen(
        ["node", "shop.mjs"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "asked about order-3: rollback\n"
        finally:
            process.kill()
    assert (tmp_path / "rows" / "order-3").read_text() == "fenced"
