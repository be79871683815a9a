"""The image of `make image`, in a real engine: any user, no rights, nothing that can be written."""

from __future__ import annotations

import gzip
import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

import halfhitch
from harness.contained import IMAGE, RESTRICTED, USER, ContainedSidecar, docker, inspected
from harness.kafka import create_topics, fresh_name, read_all, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.image, pytest.mark.timeout(300)]

#: The aim; 10^6 bytes, as registries show them.
COMPRESSED_MB_MAX = 120
WAIT_S = 60

#: An application's: over the socket, one kept and one taken back.
PROGRAM = """
import sys
from halfhitch import TransactionProducer
with TransactionProducer("shop") as producer:
    for value, is_kept in ((b"kept", True), (b"taken back", False)):
        tx = producer.transaction()
        tx.send(sys.argv[1], value)
        tx.commit() if is_kept else tx.rollback()
"""


@pytest.fixture
def sidecar(kafka: Any, redis_server: Any, tmp_path: Path) -> Iterator[ContainedSidecar]:
    with ContainedSidecar(
        kafka.bootstrap,
        tmp_path,
        HALFHITCH_REDIS_URL=redis_server.url,
        HALFHITCH_TOPICS_PREFIX=fresh_name("image") + ".",
        HALFHITCH_TOPICS_CREATE="true",
    ) as started:
        yield started.wait_ready()


def test_it_has_what_is_fast_and_says_what_it_is() -> None:
    told = docker("run", "--rm", "--network=none", *RESTRICTED[:3], IMAGE, "--version")
    about = inspected(IMAGE)["Config"]
    is_fast = "compiled, native, uvloop" in told
    print(told)
    assert told.startswith(f"halfhitch {halfhitch.__version__}")
    assert is_fast or "Faster with" in told
    assert about["Labels"]["org.opencontainers.image.version"] == halfhitch.__version__
    assert about["User"] == "65532:65532"


def test_it_is_small() -> None:
    """Each layer by itself, as a registry keeps them; here all are packed at once."""
    packed = 0
    with subprocess.Popen(["docker", "save", IMAGE], stdout=subprocess.PIPE) as saved:
        assert saved.stdout is not None
        while chunk := saved.stdout.read(1 << 24):
            packed += len(gzip.compress(chunk, 6))
    assert saved.returncode == 0
    unpacked = inspected(IMAGE)["Size"]
    print(f"{IMAGE}: {packed / 1e6:.0f} MB compressed, {unpacked / 1e6:.0f} MB unpacked")
    assert packed < COMPRESSED_MB_MAX * 1e6


def test_it_lists_what_it_is_made_of() -> None:
    program = "print(open('/usr/share/doc/halfhitch/sbom.cdx.json').read())"
    told = docker("run", "--rm", "--network=none", "--entrypoint=python", IMAGE, "-c", program)
    found = json.loads(told)
    assert found["bomFormat"] == "CycloneDX"
    names = {one["name"] for one in found["components"]}
    assert {"confluent-kafka", "redis", "uvloop"} <= names
    is_fast = "native" in docker("run", "--rm", "--network=none", IMAGE, "--version")
    assert ({"halfhitch-native", "pyo3"} <= names) == is_fast


def test_no_module_is_compiled_anew_at_each_start() -> None:
    """Nothing can be written: what has no bytecode is read as text by every probe."""
    program = """
import halfhitch.composition.program, os, sys
found = (getattr(module, "__spec__", None) for module in list(sys.modules.values()))
specs = [spec for spec in found if spec]
print(len(specs), [s.name for s in specs if s.cached and not os.path.exists(s.cached)])
"""
    told = docker("run", "--rm", "--network=none", "--entrypoint=python", IMAGE, "-c", program)
    count, _, missing = told.partition(" ")
    assert int(count) > 200
    assert missing == "[]"


@pytest.mark.kafka
def test_a_message_goes_through_for_any_user_and_it_stops_in_order(
    sidecar: ContainedSidecar, kafka: Any
) -> None:
    topic = fresh_name("orders")
    create_topics(kafka.bootstrap, {topic: 1})
    sidecar.beside(PROGRAM, topic)
    wait_until(lambda: read_all(kafka.bootstrap, topic), WAIT_S, what="what was committed")
    sidecar.wait_settled()
    assert [record.value for record in read_all(kafka.bootstrap, topic)] == [b"kept"]
    assert inspected(sidecar.name)["Config"]["User"] == USER
    assert sidecar.terminate() == 0
    # The engine itself makes the mount's folder.
    written = set(docker("diff", sidecar.name).splitlines())
    assert written <= {"C /run", "A /run/halfhitch"}


@pytest.mark.kafka
def test_the_engine_finds_it_healthy(sidecar: ContainedSidecar) -> None:
    docker("exec", sidecar.name, "halfhitch", "healthcheck", "readyz")
    wait_until(
        lambda: inspected(sidecar.name)["State"]["Health"]["Status"] == "healthy",
        WAIT_S,
        what="health, as the image's HEALTHCHECK sees it",
    )


def test_a_base_without_a_shell_is_enough() -> None:
    """Whichever base: nothing above needed one. On the one made here there is none."""
    arguments = ("run", "--rm", "--network=none", "--entrypoint=sh", IMAGE, "-c", "exit 7")
    done = subprocess.run(["docker", *arguments], capture_output=True, check=False)
    print("a shell is there" if done.returncode == 7 else "no shell is there")
    assert done.returncode in {7, 127}
