"""What `make wheels` has made, installed into bare virtual environments and run from there.

Nothing of the tree is on their path: a module that a wheel lacks is missing here, and nowhere else.
"""

from __future__ import annotations

import asyncio
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

import halfhitch
from halfhitch import TransactionProducer
from harness.kafka import create_topics, fresh_name, read_all, wait_until
from harness.remoting_client import RemotingClient
from harness.sidecar import Sidecar

if TYPE_CHECKING:
    from halfhitch.embedded import EmbeddedKafka

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
COMMIT = 8
_INSTALL_S = 900  # the packages of an extra come over the network

pytestmark = [pytest.mark.wheels, pytest.mark.timeout(_INSTALL_S + 300)]


def run(*arguments: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Without what leads to the tree."""
    done = subprocess.run(
        [str(argument) for argument in arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=_INSTALL_S,
        cwd="/",
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )
    assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
    return done


def fresh_environment(folder: Path, *install: str | Path) -> Path:
    """A virtual environment with that in it; its Python."""
    run(sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *install)
    return python


def version_line(python: Path) -> str:
    return run(python.parent / "halfhitch", "--version").stdout.splitlines()[0]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`pip install halfhitch`, and nothing that it could take from anywhere else."""
    place = tmp_path_factory.mktemp("bare")
    return fresh_environment(place / "venv", "--no-index", "--find-links", DIST, "halfhitch")


@pytest.fixture(scope="module")
def fast(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`pip install halfhitch[speed]`: ours from dist, the others as requirements.lock has them."""
    place = tmp_path_factory.mktemp("fast")
    pins = re.findall(r"^\S+==\S+", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    (place / "pins.txt").write_text("\n".join(pins))
    asked = ("--find-links", DIST, "--constraint", place / "pins.txt", "halfhitch[speed]")
    return fresh_environment(place / "venv", *asked)


def test_a_release_is_complete() -> None:
    version = halfhitch.__version__
    names = sorted(path.name for path in DIST.iterdir())
    patterns = [
        rf"halfhitch-{version}-py3-none-any\.whl",
        rf"halfhitch-{version}\.tar\.gz",
        rf"halfhitch_native-{version}-cp311-abi3-(manylinux|macosx)\w+\.whl",
        rf"halfhitch_native-{version}\.tar\.gz",
    ]
    for pattern in patterns:
        assert [name for name in names if re.fullmatch(pattern, name)], (pattern, names)
    for name in names:
        assert not name.endswith(("-linux_x86_64.whl", "-linux_aarch64.whl")), (
            "fits this machine only"
        )


def test_the_client_brings_no_other_package_and_works(bare: Path) -> None:
    listed = run(bare, "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check").stdout
    names = {line.partition("==")[0] for line in listed.split()}
    assert names - {"pip", "setuptools"} == {"halfhitch"}
    program = """
import sqlite3
from halfhitch import Message, TransactionProducer
from halfhitch.barrier import DbapiBarrier
import halfhitch
barrier = DbapiBarrier(lambda: sqlite3.connect("/dev/null"), "shop", dialect="sqlite")
print(halfhitch.__file__)
"""
    told = run(bare, "-c", program).stdout
    assert told.startswith(str(bare.parent.parent))


def test_the_bare_command_line_says_what_to_install(bare: Path) -> None:
    assert version_line(bare).startswith(f"halfhitch {halfhitch.__version__}")
    assert "serve" in run(bare.parent / "halfhitch", "--help").stdout
    told = run(bare.parent / "halfhitch", "serve", code=2).stderr
    assert told == (
        "halfhitch: `halfhitch serve` needs halfhitch[sidecar]: pip install 'halfhitch[sidecar]'\n"
    )


def test_the_extra_speed_brings_all_that_is_fast(fast: Path) -> None:
    line = version_line(fast)
    assert "native" in line
    assert "uvloop" in line
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    is_there = any(DIST.glob(f"halfhitch-*-{tag}-{tag}-*{platform.machine()}.whl"))
    assert ("compiled" in line) is is_there
    run(fast, "-m", "pip", "check", "--disable-pip-version-check")


@pytest.mark.kafka
def test_an_installed_sidecar_serves_http_and_rocketmq_clients_the_native_way(
    kafka: EmbeddedKafka, fast: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, prefix = fresh_name("wheels"), fresh_name("prefix") + "-"
    create_topics(kafka.bootstrap, {topic: 1})
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    sidecar = Sidecar(
        kafka.bootstrap,
        tmp_path,
        HALFHITCH_TOPICS_PREFIX=prefix,
        HALFHITCH_TOPICS_CREATE="true",
        HALFHITCH_ROCKETMQ_ENABLED="true",
        HALFHITCH_ROCKETMQ_PORT="0",
    )
    sidecar.python = str(fast)
    with sidecar:
        sidecar.wait_ready()
        with TransactionProducer("shop", address=sidecar.address) as producer:
            tx = producer.transaction()
            tx.send(topic, b"over HTTP")
            tx.commit()
        sent_count = asyncio.run(send_until_native(sidecar, topic))
        sidecar.wait_settled()
        records = wait_for_records(kafka.bootstrap, topic, sent_count + 1)
        assert sidecar.terminate() == 0
    wanted = [b"over HTTP", *(b"native %d" % number for number in range(sent_count))]
    assert sorted(wanted) == records


def wait_for_records(bootstrap: str, topic: str, count: int) -> list[bytes]:
    def values() -> list[bytes]:
        return sorted(record.value for record in read_all(bootstrap, topic))

    wait_until(lambda: len(values()) >= count, 30, what=f"{count} visible messages")
    return values()


async def send_until_native(sidecar: Sidecar, topic: str) -> int:
    """Transactions of a RocketMQ client until native threads have carried out some of them."""
    (port,) = re.findall(r"rocketmq://127\.0\.0\.1:(\d+)", sidecar.log.read_text())
    async with RemotingClient(int(port)) as client:
        for number in range(2_000):
            unique = f"{topic}-{number}"
            sent = await client.half("shop", topic, b"native %d" % number, unique=unique)
            while number == 0 and "kafka_unavailable" in (sent.remark or ""):
                await asyncio.sleep(0.05)  # the door looks for Kafka once in a while
                sent = await client.half("shop", topic, b"native 0", unique=unique)
            assert sent.code == 0, sent.remark
            assert (await client.end_sync("shop", sent, COMMIT)).code == 0
            if await asyncio.to_thread(native_count, sidecar) > 10:
                return number + 1
    raise AssertionError("not one request went the native way:\n" + sidecar.log.read_text())


def native_count(sidecar: Sidecar) -> int:
    with urlopen(f"http://127.0.0.1:{sidecar.admin_port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found = re.findall(r"^halfhitch_rocketmq_native_requests_total (\S+)$", text, re.MULTILINE)
    return int(float(found[0])) if found else 0
