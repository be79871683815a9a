"""Server processes: obedient while the owner lives, gone soon after it does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from halfhitch.embedded import EmbeddedError, ServerProcess, unwind_on_sigterm
from harness.kafka import wait_until

# A server that says when it is ready, one that ends in its own way, one that refuses to be asked.
PLAIN = "import time; print('ready', flush=True); time.sleep(600)"
POLITE = "import os, signal; signal.signal(signal.SIGTERM, lambda *_: os._exit(3));" + PLAIN
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);" + PLAIN
GONE_S = 10.0


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


def state(pid: int) -> str:
    """The kernel's letter for a process; empty when it is gone (or waits to be forgotten)."""
    try:
        letter = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if letter in "ZX" else letter


def await_ready(server: ServerProcess) -> ServerProcess:
    wait_until(lambda: "ready" in server.log_tail(), 20, what="the server's first line")
    return server


@pytest.fixture
def start(tmp_path):
    servers = []

    def start_one(code=PLAIN, **options):
        server = ServerProcess(
            "the test server", python(code), log=tmp_path / "server.log", **options
        )
        servers.append(server)
        return await_ready(server)

    yield start_one
    for server in servers:
        server.kill()


def test_a_server_that_ends_by_itself_leaves_its_status(tmp_path):
    server = ServerProcess("it", python("raise SystemExit(7)"), log=tmp_path / "log")
    assert server.wait(at_most_s=20)
    assert server.exit_status == 7
    assert not server.is_running


def test_terminate_asks_politely(start):
    server = start(POLITE)
    server.terminate(grace_s=20)
    assert server.exit_status == 3


def test_terminate_does_not_take_no_for_an_answer(start):
    server = start(STUBBORN)
    server.terminate(grace_s=0.2)
    assert server.exit_status == -signal.SIGKILL
    assert not state(server.pid)


def test_kill_returns_when_the_process_is_gone(start):
    server = start()
    server.kill()
    assert server.exit_status == -signal.SIGKILL
    assert not state(server.pid)


def test_a_paused_server_is_stopped_when_pause_returns_and_runs_after_resume(start):
    server = start()
    server.pause()
    assert state(server.pid) == "T"
    assert server.is_running
    server.pause()
    server.resume()
    assert state(server.pid) in {"S", "R"}
    server.resume()


def test_a_paused_server_can_be_terminated_in_good_order(start):
    server = start(POLITE)
    server.pause()
    server.terminate(grace_s=20)
    assert server.exit_status == 3


def test_orders_to_a_server_that_is_gone_do_nothing(start):
    server = start()
    server.kill()
    server.kill()
    server.terminate(grace_s=1)
    server.resume()
    with pytest.raises(EmbeddedError, match="could not be paused: it is gone"):
        server.pause()


def test_a_command_that_does_not_exist_is_named_in_the_log(tmp_path):
    server = ServerProcess("it", ["/no/such/program"], log=tmp_path / "log")
    assert server.wait(at_most_s=20)
    assert server.exit_status == 127
    assert "cannot start /no/such/program" in server.log_tail()


def test_children_that_a_dead_server_left_behind_die_as_well(start):
    server = start(
        "import os, time\n"
        "child = os.fork()\n"
        "if child: print('ready', child, flush=True)\n"
        "time.sleep(600)"
    )
    child = int(server.log_tail().split()[1])
    assert state(child)
    os.kill(server.pid, signal.SIGKILL)
    assert server.wait(at_most_s=GONE_S)
    wait_until(lambda: not state(child), GONE_S)


def test_the_terminal_cannot_reach_the_server(start):
    server = start()
    assert os.getsid(server.pid) != os.getsid(0)
    assert os.getpgid(server.pid) == server.pid


def test_a_killed_supervisor_takes_its_server_with_it(start):
    server = start()
    server._supervisor.kill()
    assert server.wait(at_most_s=GONE_S)
    wait_until(lambda: not state(server.pid), GONE_S)


#: A test run that was started in the background may ignore SIGHUP, and its children inherit that.
OWNER = """
import os, signal, sys, time
from pathlib import Path
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from halfhitch.embedded import ServerProcess
server = ServerProcess(
    "it", [sys.executable, "-I", "-S", "-c", {code!r}], log=Path({log!r}), **{options}
)
while "ready" not in server.log_tail(): time.sleep(0.01)
{more}
print(server.pid, server._supervisor.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def owner(tmp_path):
    """Start a process that owns a server; returns it with the pids of server and supervisor."""
    owners = []

    def start_owner(code=PLAIN, more="", **options):
        text = OWNER.format(
            code=code,
            log=str(tmp_path / "data" / "server.log"),
            more=textwrap.dedent(more),
            options=repr(options),
        )
        process = subprocess.Popen(
            [sys.executable, "-c", text], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        owners.append(process)
        server, supervisor = map(int, process.stdout.readline().split())
        return process, server, supervisor

    yield start_owner
    for process in owners:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait(10)
        process.stdout.close()


def assert_all_gone(*pids: int) -> None:
    started = time.monotonic()
    wait_until(lambda: not any(map(state, pids)), GONE_S, what=f"the end of {pids}")
    assert time.monotonic() - started < GONE_S


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_the_server_is_gone_within_seconds_of_its_owner(owner, number):
    process, server, supervisor = owner()
    process.send_signal(number)
    process.wait(10)
    assert_all_gone(server, supervisor)


def test_a_stubborn_server_is_killed_after_its_grace(owner):
    process, server, supervisor = owner(STUBBORN, grace_s=0.3)
    process.kill()
    assert_all_gone(server, supervisor)


def test_a_server_in_pause_does_not_outlive_its_owner(owner):
    process, server, supervisor = owner(more="server.pause()")
    assert state(server) == "T"
    process.kill()
    assert_all_gone(server, supervisor)


def test_a_fork_that_outlives_the_owner_does_not_keep_the_server(owner):
    # The fork holds the owner's end of the pipe, so the pipe does not close with the owner.
    process, server, supervisor = owner(
        more="""
        if os.fork() == 0:
            os.close(1)
            time.sleep(600)
        """
    )
    process.kill()
    assert_all_gone(server, supervisor)


def test_temporary_data_is_swept_when_the_owner_vanishes(owner, tmp_path):
    folder = tmp_path / "data"
    process, server, supervisor = owner(STUBBORN, sweep=str(folder))
    assert (folder / "server.log").exists()
    process.kill()
    assert_all_gone(server, supervisor)
    assert not folder.exists()


def test_ctrl_c_reaches_the_owner_alone(owner):
    process, server, _ = owner(
        more="""
        import signal
        signal.signal(signal.SIGINT, lambda *_: print(server.is_running, flush=True))
        """
    )
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does
    assert process.stdout.readline().strip() == "True"
    assert state(server)


def test_sigterm_unwinds_with_blocks_in_order():
    done = []

    def work():
        try:
            signal.raise_signal(signal.SIGTERM)
            done.append("went on")
        finally:
            done.append("stopped")

    with pytest.raises(SystemExit) as caught, unwind_on_sigterm():
        work()
    assert caught.value.code == 128 + signal.SIGTERM
    assert done == ["stopped"]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
