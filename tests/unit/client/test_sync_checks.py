"""What only the blocking producer's checks have to do with: threads, forks, the program's end."""

import gc
import os
import subprocess
import sys
import threading
import time
import warnings

import pytest

from halfhitch.client import LocalTransactionState, TransactionProducer, checks, sync_checks, turns
from halfhitch.client.address import parse_address
from halfhitch.client.calls import Calls
from halfhitch.client.pacing import REAL_PACING
from halfhitch.client.sync_checks import Answering, CheckAnswers
from harness.check_streams import ChecksDoor
from harness.scripted_http import HANG
from harness.strikes import strikes

COMMIT = LocalTransactionState.COMMIT
DEADLINE_S = 10


def ours():
    return [thread for thread in threading.enumerate() if thread.name.startswith("halfhitch-check")]


def until(happened):
    ends_at_s = time.monotonic() + DEADLINE_S
    while not happened():
        assert time.monotonic() < ends_at_s, "it did not happen"
        time.sleep(0.005)


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    assert ours() == []
    yield
    until(lambda: ours() == [])


def commit(check):
    return COMMIT


def in_a_forked_child(work):
    """Fails unless `work` ends without an exception."""
    with warnings.catch_warnings():
        # Newer Pythons warn of a fork beside threads, which is what these tests are about.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# -- threads


def test_a_producer_without_a_check_has_no_thread():
    with ChecksDoor() as door, TransactionProducer("orders", door.address) as producer:
        producer.view("h")
        assert ours() == []


def test_an_idle_producer_has_one_thread_and_no_more_workers_than_it_may(monkeypatch):
    monkeypatch.setattr(sync_checks, "_IDLE_S", 0.2)
    gate = threading.Event()
    busy = threading.Semaphore(0)

    def held(check):
        busy.release()
        assert gate.wait(DEADLINE_S)
        return COMMIT

    with (
        ChecksDoor() as door,
        TransactionProducer("orders", door.address, check=held, check_workers=3),
    ):
        stream = door.stream()
        assert len(ours()) == 1
        for number in range(10):
            stream.check(f"t{number}")
        for _ in range(3):
            assert busy.acquire(timeout=DEADLINE_S)
        assert len(ours()) == 4
        gate.set()
        door.until_ends(10)
        until(lambda: len(ours()) == 1)
        stream.check("again")
        door.until_ends(11)


def test_waiting_for_a_worker_is_not_done_in_a_hurry(monkeypatch):
    monkeypatch.setattr(checks, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(checks, "SILENCE_S", 0.1)
    looks = []
    has_room = sync_checks._Workers.has_room
    gate = threading.Event()

    def counted(workers, wait_s):
        looks.append(wait_s)
        return has_room(workers, wait_s)

    def held(check):
        assert gate.wait(DEADLINE_S)
        return COMMIT

    monkeypatch.setattr(sync_checks._Workers, "has_room", counted)
    with (
        ChecksDoor() as door,
        TransactionProducer("orders", door.address, check=held, check_workers=1),
    ):
        stream = door.stream()
        stream.check("t1")
        stream.check("t2")
        stream.until_beats(10)
        assert len(looks) < 30, "a look for each heartbeat"
        gate.set()
        door.until_ends(2)


def test_one_check_after_the_other_needs_one_worker():
    threads = set()

    def noted(check):
        threads.add(threading.get_ident())
        return COMMIT

    with ChecksDoor() as door, TransactionProducer("orders", door.address, check=noted):
        stream = door.stream()
        for number in range(20):
            until(sync_checks_idle)
            stream.check(f"t{number}")
            door.until_ends(number + 1)
    assert len(threads) == 1


def sync_checks_idle():
    (answers,) = [a for a in sync_checks._all if not a._over]
    return answers._workers._open_count == 0


def test_a_check_has_its_own_thread_and_may_use_the_producer():
    def sends(check):
        assert threading.current_thread().daemon
        with producer.transaction() as tx:
            tx.send("audit", b"asked")
        return COMMIT

    with (
        ChecksDoor() as door,
        TransactionProducer("orders", door.address, check=sends) as producer,
    ):
        door.stream().check("t1")
        door.until(lambda: ("t1", "commit?source=check") in door.ends())
        assert "/v1/topics/audit/half" in door.targets()


def test_a_check_may_close_the_producer():
    closed = threading.Event()

    def closes(check):
        producer.close()
        closed.set()
        return COMMIT

    with ChecksDoor() as door:
        producer = TransactionProducer("orders", door.address, check=closes)
        door.stream().check("t1")
        assert closed.wait(DEADLINE_S)
        assert door.ends() == []


def test_closing_twice_and_from_several_threads_is_one_close():
    with ChecksDoor() as door:
        producer = TransactionProducer("orders", door.address, check=commit)
        door.stream()
        threads = [threading.Thread(target=producer.close) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)
        producer.close()


def test_a_check_waits_for_a_thread_when_none_can_be_had(monkeypatch):
    start = threading.Thread.start
    refused = threading.Event()

    def refusing(thread):
        if thread.name.startswith("halfhitch-check-") and not refused.is_set():
            refused.set()
            raise RuntimeError("can't start new thread")
        start(thread)

    with ChecksDoor() as door, TransactionProducer("orders", door.address, check=commit):
        stream = door.stream()
        monkeypatch.setattr(threading.Thread, "start", refusing)
        stream.check("t1")
        assert door.until_ends(1) == [("t1", "commit?source=check")]
        assert refused.is_set()


def test_a_bug_of_ours_does_not_end_the_answers(monkeypatch, caplog):
    monkeypatch.setattr(checks, "PAUSE_S_MAX", 0.1)
    feed = checks.CheckStream.feed

    def failing(*args):
        monkeypatch.setattr(checks.CheckStream, "feed", feed)
        raise ZeroDivisionError

    monkeypatch.setattr(checks.CheckStream, "feed", failing)
    with ChecksDoor() as door, TransactionProducer("orders", door.address, check=commit):
        door.stream()
        door.stream(2).check("t1")
        door.until_ends(1)
    assert [record.action for record in caplog.records] == ["check_stream_bug"]


def test_pauses_between_streams_are_the_pacings(monkeypatch):
    pauses = []
    enough = threading.Event()

    def wait(event, pause_s):
        pauses.append(pause_s)
        if len(pauses) == 9:
            enough.set()
            event.wait(DEADLINE_S)

    pacing = REAL_PACING._replace(jitter=lambda: 1.0, wait=wait)
    address = "http://127.0.0.1:9"
    with TransactionProducer("orders", address, check=commit, pacing=pacing):
        assert enough.wait(DEADLINE_S)
    assert pauses[:9] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_close_does_not_sit_through_a_pause():
    paused = threading.Event()

    def wait(event, pause_s):
        paused.set()
        event.wait(60)

    pacing = REAL_PACING._replace(wait=wait)
    began_at_s = time.monotonic()
    with TransactionProducer("orders", "http://127.0.0.1:9", check=commit, pacing=pacing):
        assert paused.wait(DEADLINE_S)
    assert time.monotonic() - began_at_s < DEADLINE_S


# -- a producer that is dropped, and the end of the program


def test_a_dropped_producer_ends_its_stream(monkeypatch):
    monkeypatch.setattr(sync_checks, "_IDLE_S", 0.1)
    with ChecksDoor() as door:
        producer = TransactionProducer("orders", door.address, check=commit)
        stream = door.stream()
        stream.check("t1")
        door.until_ends(1)
        del producer
        gc.collect()
        stream.until_over()
        until(lambda: ours() == [])


def test_a_program_that_forgets_to_close_ends_all_the_same():
    code = (
        "import sys, threading\n"
        "from halfhitch.client import LocalTransactionState, TransactionProducer\n"
        "asked = threading.Event()\n"
        "def check(_):\n"
        "    asked.set()\n"
        "    threading.Event().wait(60)\n"
        "producer = TransactionProducer('orders', sys.argv[1], check=check)\n"
        "assert asked.wait(20)\n"
        "print('over')\n"
    )
    with ChecksDoor() as door:
        program = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", code, door.address],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        stream = door.stream()
        stream.check("t1")
        told, _ = program.communicate(timeout=30)
        assert (told, program.returncode) == ("over\n", 0)
        stream.until_over()
        assert door.ends() == []


def test_the_modules_of_checks_are_not_imported_without_one():
    code = (
        "import sys; from halfhitch.client import TransactionProducer;"
        "TransactionProducer('orders', 'http://127.0.0.1:9').close();"
        "print(sorted(name for name in sys.modules if name.endswith('checks')))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert told.stdout.strip() == "[]"


# -- forks


def test_a_forked_child_answers_from_its_first_call_on():
    asked = []

    def noted(check):
        asked.append(check.transaction_id)
        return COMMIT

    with (
        ChecksDoor() as door,
        TransactionProducer("orders", door.address, check=noted) as producer,
    ):
        first = door.stream()

        def child():
            assert ours() == []
            producer.view("h")
            until(lambda: asked == ["t2"])
            producer.close()
            assert ours() == []

        waiter = threading.Thread(target=in_a_forked_child, args=(child,))
        waiter.start()
        second = door.stream(2)
        name = first.request.header("Half-Producer-Name")
        assert second.request.header("Half-Producer-Name") != name
        second.check("t2")
        assert door.until_ends(1) == [("t2", "commit?source=check")]
        second.until_over()
        waiter.join(DEADLINE_S)
        assert not waiter.is_alive()
        first.check("t1")
        assert door.until_ends(2)[1] == ("t1", "commit?source=check")
        assert asked == ["t1"]
        assert len(door.streams) == 2


def door_streams_asked(producer):
    connection = producer._answers._connection
    return [] if connection is None else [connection]


def test_a_forked_child_that_makes_no_call_answers_nothing_and_holds_nothing():
    with (
        ChecksDoor() as door,
        TransactionProducer("orders", door.address, check=commit) as producer,
    ):
        first = door.stream()
        go_on, tell = os.pipe()

        def child():
            assert ours() == []
            assert door_streams_asked(producer) == []
            assert os.read(go_on, 1) == b"x"
            producer.close()

        waiter = threading.Thread(target=in_a_forked_child, args=(child,))
        waiter.start()
        producer.close()
        first.until_over()  # though the child lives: it has no copy of the socket
        os.write(tell, b"x")
        waiter.join(DEADLINE_S)
        assert not waiter.is_alive()
        os.close(go_on)
        os.close(tell)
        assert len(door.streams) == 1


def test_a_fork_while_checks_run_leaves_them_to_the_parent():
    gate = threading.Event()
    busy = threading.Event()

    def held(check):
        busy.set()
        assert gate.wait(DEADLINE_S)
        return COMMIT

    with (
        ChecksDoor() as door,
        TransactionProducer("orders", door.address, check=held, check_workers=1) as producer,
    ):
        stream = door.stream()
        stream.check("t1")
        stream.check("t2")
        assert busy.wait(DEADLINE_S)

        def child():
            began_at_s = time.monotonic()
            producer.close()
            assert time.monotonic() - began_at_s < checks.CLOSE_S, (
                "it waited for what is not its own"
            )

        in_a_forked_child(child)
        gate.set()
        assert sorted(door.until_ends(2)) == [
            ("t1", "commit?source=check"),
            ("t2", "commit?source=check"),
        ]


def test_forks_at_any_moment_leave_both_sides_working(rng):
    with (
        ChecksDoor() as door,
        TransactionProducer("orders", door.address, check=commit) as producer,
    ):
        stream = door.stream()
        for number in range(20):
            stream.check(f"t{number}")
            if rng.random() < 0.5:
                door.until_ends(number + 1)
            in_a_forked_child(lambda: (producer.view("h"), producer.close()))
        door.until_ends(20)


def test_a_check_that_hangs_at_the_door_does_not_keep_close_for_long(monkeypatch):
    monkeypatch.setattr(checks, "CLOSE_S", 0.2)
    with ChecksDoor(ends=lambda _: HANG) as door:
        producer = TransactionProducer("orders", door.address, check=commit, deadline_s=5)
        door.stream().check("t1")
        door.until_ends(1)
        began_at_s = time.monotonic()
        producer.close()
        # Long before the deadline of its answer, which the check's own thread waits for.
        assert time.monotonic() - began_at_s < 4


# -- a signal's handler that raises


def never(check):
    raise AssertionError("nobody asks")


def lonely(address="unix:/nowhere/to/be/found"):
    """Answers of a producer whose sidecar is not there."""
    found = parse_address(address)
    calls = Calls(found, "orders", None)
    return CheckAnswers(Answering(found, "orders", calls, never, never, REAL_PACING, 2))


def in_time(work):
    """In another thread, so that one that hangs is told and does not hang the test."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(DEADLINE_S)
    assert not thread.is_alive(), "it hangs"


def test_a_close_that_a_handler_interrupted_hung_when_it_was_repeated():
    """The exception came between a Condition's `__enter__` and its block, and left it locked."""
    for strike in strikes(sync_checks, turns, threading, is_real=True):
        answers = lonely()
        answers.start()
        answers._workers.submit(lambda: lambda: None)
        with strike:
            answers.close()
        in_time(answers.close)
        until(lambda: ours() == [])


def test_a_start_that_a_handler_interrupted_began_twice_or_never():
    for strike in strikes(sync_checks, is_real=True):
        answers = lonely()
        answers.is_due = True  # as in a forked child
        with strike:
            answers.start()
        answers.start()
        until(lambda: len(ours()) == 1)
        assert not answers.is_due
        in_time(answers.close)
        until(lambda: ours() == [])
