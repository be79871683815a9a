"""`halfhitch dev` as a person uses it: start, paste what it prints, Ctrl-C, start again."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.dev import START_S, STOP_S, Dev
from harness.kafka import read_all, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]
VISIBLE_S = 20.0

#: For machines without curl: the flags that `dev` prints, and no others.
CURL = """#!{python}
import sys, urllib.request
arguments, headers, data, method = sys.argv[1:], {{}}, None, None
while arguments:
    word = arguments.pop(0)
    if word == "-H":
        name, _, value = arguments.pop(0).partition(": ")
        headers[name] = value
    elif word == "-d":
        data = arguments.pop(0).encode()
    elif word == "-X":
        method = arguments.pop(0)
    elif word != "-sS":
        url = word
request = urllib.request.Request(url, data=data, headers=headers, method=method)
print(urllib.request.urlopen(request).read().decode())
"""


def processes_of(folder: Path) -> list[str]:
    """Command lines of living processes that have the folder in them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in command:
            found.append(command)
    return found


def shell(script: str, folder: Path) -> str:
    """Run what `dev` printed."""
    environment = dict(os.environ)
    if shutil.which("curl") is None:
        stand_in = folder / "curl"
        stand_in.write_text(CURL.format(python=sys.executable))
        stand_in.chmod(0o755)
        environment["PATH"] = f"{folder}:{environment['PATH']}"
    result = subprocess.run(
        ["/bin/sh", "-e", "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def values(bootstrap: str, topic: str) -> list[bytes | None]:
    """What a consumer sees now. A commit's markers follow its answer within moments."""
    return [record.value for record in read_all(bootstrap, topic)]


def commands(text: str) -> tuple[str, str]:
    """The two printed commands: prepare, commit."""
    found = re.search(r"^ +(HANDLE=.*?)\n +(curl .*?)\n", text, re.MULTILINE | re.DOTALL)
    assert found is not None, text
    return found[1], found[2]


def cli(*arguments: str) -> tuple[int, str]:
    result = subprocess.run(
        [sys.executable, "-m", "halfhitch_cli", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return result.returncode, result.stdout


@pytest.mark.long
def test_what_dev_prints_works_and_what_was_prepared_outlives_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with Dev(folder) as dev:
        dev.wait_until_ready()
        prepare, commit = commands(dev.text)
        answer = shell(f"{prepare}\n{commit}", tmp_path)
        assert json.loads(answer)["state"] == "committed"
        kafka = dev.named("Kafka")
        wait_until(lambda: values(kafka, "orders") == [b"one"], VISIBLE_S, what="the order")
        assert read_all(kafka, "points") == []

        handle = shell(f'{prepare}\necho "$HANDLE"', tmp_path).strip()
        admin_port = dev.named("admin door").rpartition(":")[2]
        code, out = cli("status", "--admin-port", admin_port, "-o", "json")
        assert code == 0
        assert sum(p["pending_count"] for p in json.loads(out)["partitions"]) == 1
        doctor, verify = re.findall(r"^  halfhitch ((?:doctor|verify) .*)$", dev.text, re.MULTILINE)
        code, out = cli(*verify.split(), "-o", "json")
        assert code == 0, out
        assert json.loads(out)["transactions"]["committed"] == 1
        code, out = cli(*doctor.split(), "-o", "json")
        assert code == 0, out
        # The very line that it prints was answered with four warnings of what is right here.
        assert {row["severity"] for row in json.loads(out)["findings"]} == {"ok"}, out
        assert "max.message.bytes" not in out  # what the sidecar created suits the commands too
        assert (folder / "handle.key").stat().st_mode & 0o077 == 0

        assert dev.interrupt() == 0
        assert processes_of(folder) == []
        assert not any("Traceback" in line for line in dev.errors), "".join(dev.errors)

    with Dev(folder) as again:
        again.wait_until_ready()
        _, commit = commands(again.text)
        answer = shell(f"HANDLE='{handle}'\n{commit}", tmp_path)
        assert json.loads(answer)["state"] == "committed"
        kafka = again.named("Kafka")
        wait_until(lambda: values(kafka, "orders") == [b"one", b"one"], VISIBLE_S, what="both")
        again.process.send_signal(signal.SIGTERM)
        assert again.process.wait(STOP_S) == 0
        assert processes_of(folder) == []


def test_ctrl_c_while_starting_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with Dev(folder) as dev:
        wait_until(
            lambda: bool(processes_of(folder / "kafka")) or dev.process.poll() is not None,
            START_S,
            what="the first process of Kafka",
        )
        code = dev.interrupt()
        assert code == 130, "".join(dev.errors)
        wait_until(lambda: processes_of(folder) == [], STOP_S, what="the end of all servers")
        assert not any("Traceback" in line for line in dev.errors), "".join(dev.errors)


def test_topics_can_be_named(tmp_path: Path) -> None:
    with Dev(tmp_path / "data", "--topic", "shop.orders:3", "--topic", "bills") as dev:
        dev.wait_until_ready()
        assert "(topics shop.orders, bills)" in dev.text
        from harness.kafka import admin_client

        known = admin_client(dev.named("Kafka")).list_topics(timeout=30).topics
        assert len(known["shop.orders"].partitions) == 3
        assert len(known["bills"].partitions) == 1
        assert "orders" not in known
        assert dev.interrupt() == 0


@pytest.mark.long
@pytest.mark.parametrize("server", ["Kafka", "Redis"])
def test_dev_went_on_without_a_server_that_had_died(tmp_path: Path, server: str) -> None:
    folder = tmp_path / "data"
    with Dev(folder) as dev:
        dev.wait_until_ready()
        other = subprocess.run(
            [sys.executable, "-m", "halfhitch_cli", "dev", "--data", str(folder)],
            capture_output=True, text=True, timeout=START_S, check=False,
        )  # fmt: skip
        assert other.returncode == 1
        assert f"process {dev.process.pid}" in other.stderr
        _kill(folder, "server.properties" if server == "Kafka" else "redis.conf")
        wait_until(
            lambda: any(f"halfhitch: {server} was killed" in line for line in dev.errors),
            VISIBLE_S,
            what=f"what dev says of the dead {server}",
        )
        assert dev.process.wait(STOP_S) == 1
        told = "".join(dev.errors)
        assert "Traceback" not in told
        assert str(folder / server.lower()) in told  # where the log is
        assert processes_of(folder) == []


def _kill(folder: Path, configuration: str) -> None:
    """SIGKILL to the server that was started with this file: its supervisor's only child."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if all(word in command for word in ("supervise.py", str(folder), configuration)):
            pid = path.parent.name
            (server,) = (path.parent / "task" / pid / "children").read_text().split()
            os.kill(int(server), signal.SIGKILL)
            return
    raise AssertionError(f"no server was started with {configuration}")
