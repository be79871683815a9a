"""Application processes: real producers that write down what they did, before and after each call.

Owns `Application` (the process, as a scenario sees it) and, as `python -m chaos.kit.apps`, the
process itself. The truth of a transaction's local side is a row in a SQLite file that all processes
of a group share; it outlives every one of them, and a check answers from it alone. A check that
finds no row puts ROLLBACK there first, so that a late local commit fails. Where the local
transaction is still at work in this process, the check waits for it, as for a lock on its row.

Some transactions are slow: they send each message in a request of its own and take longer than the
immunity, so that they are asked about while they grow.

History: JSON lines, each written in one call before the application goes on. `fail` means surely
not, `info` means that nobody knows.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaos.kit.history import Message as Noted
from chaos.kit.history import Writer
from halfhitch.client import LocalTransactionState, Message, TransactionProducer
from halfhitch.errors import HalfHitchError, OutcomeUnknown, VisibilityUnknown
from harness.places import python_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from halfhitch.client import Check, Prepared

#: Letter at the end of a transaction id: what becomes of it, and of how many of a hundred.
COMMIT, ROLLBACK, CHECK_COMMIT, CHECK_ROLLBACK, NEVER = "C", "R", "X", "Y", "N"
#: A commit and a roll back at the same time, through two sidecars: the first one counts.
CONTESTED = "T"
MIX = {COMMIT: 79, ROLLBACK: 10, CHECK_COMMIT: 5, CHECK_ROLLBACK: 3, NEVER: 2, CONTESTED: 1}

_TRIES = 6
_CALL_S = 3.0
#: A sidecar that could not be reached is left alone for a while.
_SHUN_S = 2.0
_KEYS = 40
#: What a check waits for a local transaction that is at work; less than it has for its answer.
_LOCK_WAIT_S = 1.4
#: Between two requests of a slow transaction: around the immunity and the next check.
_SLOW_S = (0.5, 1.5)
#: One that has taken so long is not carried out: soon it would be given up, for its checks bring
#: nothing while it is at work.
_GROWN_S_MAX = 5.5
#: Asking again cannot help.
_FINAL = frozenset(
    {"contrary_decision", "transaction_gone", "transaction_parked", "message_too_large"}
)


@dataclass(frozen=True, slots=True)
class AppPlan:
    """What one process is told; travels as JSON."""

    name: str
    group: str
    addresses: tuple[str, ...]
    topics: tuple[str, ...]
    history: str
    fates: str
    seed: int
    rate_per_s: float = 25.0
    thread_count: int = 6
    value_bytes: int = 120
    #: Of a hundred messages, how many are of `big_bytes`.
    big_percent: int = 0
    big_bytes: int = 20_000
    #: Only those are big whose plan is one of these letters; empty: any.
    big_plans: str = ""
    #: Of a hundred transactions that can be, how many are slow.
    slow_percent: float = 4.0
    #: What the process runs: this module, or one with another way to write things down.
    module: str = "chaos.kit.apps"


class Application:
    """One process of a producer group. Lives from `start` to `close`, or to a kill."""

    def __init__(self, plan: AppPlan, log: Path) -> None:
        self.plan, self.log = plan, log
        self._life = 0
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, or start it again: another life has other transaction ids."""
        self._life += 1
        told = {**asdict(self.plan), "life": self._life}
        place = python_path()
        clean = {k: v for k, v in os.environ.items() if not k.startswith("HALFHITCH_")}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", self.plan.module, json.dumps(told)],
                env={**clean, "PYTHONPATH": place},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )

    @property
    def pid(self) -> int:
        """The process id of this life."""
        assert self.process is not None
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it runs (a paused one does)."""
        return self.process is not None and self.process.poll() is None

    def send_signal(self, number: signal.Signals) -> None:
        """To this life."""
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(20)
        self._close_pipe()

    def quieten(self) -> None:
        """No new transactions; it goes on answering checks."""
        self._tell(b"quiet\n")

    def close(self) -> None:
        """End it in good order, by force after a while."""
        if self.process is None:
            return
        if self.is_alive:
            self._close_pipe()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(20)
        self._close_pipe()

    def _tell(self, order: bytes) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        if self.is_alive:
            try:
                self.process.stdin.write(order)
                self.process.stdin.flush()
            except BrokenPipeError:
                pass  # it was killed; nothing is left to be quiet

    def _close_pipe(self) -> None:
        assert self.process is not None
        pipe = self.process.stdin
        if pipe is not None and not pipe.closed:
            try:
                pipe.close()
            except BrokenPipeError:
                pass  # it was killed


class Fates:
    """The group's database: what the local transaction of an id came to. First one wins."""

    def __init__(self, path: str) -> None:
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=OFF")
        self._db.execute("CREATE TABLE IF NOT EXISTS fates (id TEXT PRIMARY KEY, fate TEXT)")

    def settle(self, transaction_id: str, fate: str) -> str:
        """Record a fate unless there is one, and give what is recorded."""
        with self._lock:
            self._db.execute("INSERT OR IGNORE INTO fates VALUES (?, ?)", (transaction_id, fate))
            found = self._db.execute("SELECT fate FROM fates WHERE id = ?", (transaction_id,))
            told: str = found.fetchone()[0]
        return told


class AppProcess:
    """The inside of an application process."""

    history: Any  # a Writer, or what takes its place
    fates: Any

    def __init__(self, told: dict[str, Any]) -> None:
        self.life: int = told.pop("life")
        self.plan = AppPlan(**told)
        self.open_books()
        self.over = threading.Event()
        self.shunned_until_s = [0.0] * len(self.plan.addresses)
        self.at_work: dict[str, threading.Event] = {}  # local transactions that are slow
        self.producers = [
            TransactionProducer(
                self.plan.group, address, deadline_s=_CALL_S, check=self.check, check_workers=4
            )
            for address in self.plan.addresses
        ]

    def open_books(self) -> None:
        """Where it writes down what it does, and its database."""
        self.history = Writer(Path(self.plan.history))
        self.fates = Fates(self.plan.fates)

    def check(self, check: Check) -> LocalTransactionState:
        """What the database says; for some transactions it never says anything."""
        identity = check.producer_group, check.transaction_id
        noted = self.history.begin("check", identity, number=check.number)
        at_work = self.at_work.get(check.transaction_id)
        if check.transaction_id.endswith(NEVER) or (at_work and not at_work.wait(_LOCK_WAIT_S)):
            answer = LocalTransactionState.UNKNOWN
        else:
            answer = LocalTransactionState[self.fates.settle(check.transaction_id, "ROLLBACK")]
        # Whether the answer arrives is not known here: nothing says `acked`.
        noted.say("ok", answer=answer.value)
        return answer

    def work(self, worker: int) -> None:
        """Transactions one after the other, at the plan's pace, until there shall be no more."""
        rng = random.Random(f"{self.plan.seed}/{self.plan.name}/{self.life}/{worker}")
        pause_s = self.plan.thread_count / self.plan.rate_per_s
        number = 0
        while not self.over.wait(pause_s * rng.uniform(0.5, 1.5)):
            plan = rng.choices(list(MIX), list(MIX.values()))[0]
            number += 1
            transaction_id = f"{self.plan.name}.{self.life}.{worker}.{number}.{plan}"
            self.transact(rng, transaction_id, plan)

    def transact(self, rng: random.Random, transaction_id: str, plan: str) -> None:
        """One transaction from its prepare to what its plan says."""
        home = rng.randrange(len(self.producers))
        is_slow = plan not in (NEVER, CONTESTED) and 100 * rng.random() < self.plan.slow_percent
        count = rng.randint(2, 4) if is_slow else rng.choices((1, 2, 3), (60, 25, 15))[0]
        messages = [self.message(rng, transaction_id, n) for n in range(count)]
        if is_slow:
            requests = [[message] for message in messages]
            self.at_work[transaction_id] = threading.Event()
        else:
            requests = [messages[:1], messages[1:]] if rng.random() < 0.2 else [messages]
        try:
            handle = self.store(rng, transaction_id, requests, home, is_slow=is_slow)
            fate = self.decide(transaction_id, plan, handle)
        finally:
            if is_slow:
                self.at_work.pop(transaction_id).set()
        if handle is None or fate is None:
            return
        if plan == CONTESTED:
            self.contest(transaction_id, handle, home)
        elif plan in (COMMIT, ROLLBACK):
            self.end(fate.lower(), transaction_id, handle, home)

    def decide(self, transaction_id: str, plan: str, handle: str | None) -> str | None:
        """Carry out the local transaction, if all is surely stored; None: nobody will ever say."""
        if plan == NEVER and handle is not None:
            return None
        if plan == CONTESTED and handle is not None:
            return "both"
        is_carried_out = plan in (COMMIT, CHECK_COMMIT) and handle is not None
        return self.fates.settle(transaction_id, "COMMIT" if is_carried_out else "ROLLBACK")

    def store(
        self,
        rng: random.Random,
        transaction_id: str,
        requests: Sequence[Sequence[Message]],
        home: int,
        *,
        is_slow: bool,
    ) -> str | None:
        """All messages, request by request; the newest handle, or None when one was not stored.

        Then what was stored is rolled back: the local transaction must not be carried out.
        """
        handle: str | None = None
        began_s = time.monotonic()
        for messages in requests:
            if not messages:
                continue
            known = handle
            if known is not None and is_slow:
                self.over.wait(rng.uniform(*_SLOW_S))
            call = partial(_sent, transaction_id, known, messages)
            what = "prepare" if known is None else "add"
            prepared = self.ask(what, transaction_id, call, home, messages)
            if prepared is None:
                if known is not None:
                    self.end("rollback", transaction_id, known, home)
                return None
            handle = prepared.handle
        if is_slow and handle is not None and time.monotonic() - began_s > _GROWN_S_MAX:
            self.end("rollback", transaction_id, handle, home)
            return None
        return handle

    def contest(self, transaction_id: str, handle: str, home: int) -> None:
        """Two decisions at once, as no sane application would send them."""
        rival = threading.Thread(
            target=self.end, args=("rollback", transaction_id, handle, home + 1), daemon=True
        )
        rival.start()
        self.end("commit", transaction_id, handle, home)
        rival.join()

    def message(self, rng: random.Random, transaction_id: str, number: int) -> Message:
        """Unique in its content; most have a key."""
        size = self.plan.value_bytes
        may_be_big = not self.plan.big_plans or transaction_id[-1] in self.plan.big_plans
        if may_be_big and rng.randrange(100) < self.plan.big_percent:
            size = self.plan.big_bytes
        value = json.dumps({"id": transaction_id, "n": number}).encode()
        value += b" " * rng.randrange(size // 2, size)
        key = None if rng.random() < 0.1 else b"key-%d" % rng.randrange(_KEYS)
        headers = [("trace", transaction_id.encode()), ("empty", None)]
        return Message(rng.choice(self.plan.topics), value, key, headers)

    def described(self, message: Message) -> Any:
        """As it is written down."""
        value, key = message.value, message.key
        assert isinstance(value, bytes)
        assert key is None or isinstance(key, bytes)
        assert isinstance(message.headers, list)
        more = {"partition": message.partition, "headers": message.headers}
        return Noted.of(message.topic, value, key, **more)

    def end(self, what: str, transaction_id: str, handle: str, home: int) -> None:
        """A commit or a rollback, until it is answered or there were tries enough."""

        def call(producer: TransactionProducer) -> Any:
            return producer.commit(handle) if what == "commit" else producer.rollback(handle)

        self.ask(what, transaction_id, call, home)

    def ask(
        self,
        what: str,
        transaction_id: str,
        call: Callable[[TransactionProducer], Prepared | Any],
        home: int,
        messages: Sequence[Message] = (),
    ) -> Prepared | Any | None:
        """Try at one sidecar after the other; None when it is given up or was refused."""
        identity = self.plan.group, transaction_id
        described = [self.described(message) for message in messages]
        for attempt in range(_TRIES):
            place = self.place(home + attempt)
            producer = self.producers[place]
            noted = self.history.begin(what, identity, described)
            try:
                result = call(producer)
            except VisibilityUnknown:
                noted.ok()
                return None
            except OutcomeUnknown as error:
                noted.info(error.code)
                self.shunned_until_s[place] = time.monotonic() + _SHUN_S
            except HalfHitchError as error:
                noted.fail(error.code)
                if error.code in _FINAL:
                    return None
                self.shunned_until_s[place] = time.monotonic() + _SHUN_S
            else:
                noted.ok()
                return result
            if self.over.is_set() and attempt:
                break
        return None

    def place(self, wanted: int) -> int:
        """Which sidecar to ask: the wanted one, unless it is shunned and another is not."""
        now_s, count = time.monotonic(), len(self.producers)
        places = [(wanted + n) % count for n in range(count)]
        return next((p for p in places if self.shunned_until_s[p] <= now_s), places[0])

    def run(self) -> None:
        """Until the pipe from the scenario is closed."""
        workers = [
            threading.Thread(target=self.work, args=(n,), daemon=True)
            for n in range(self.plan.thread_count)
        ]
        for worker in workers:
            worker.start()
        for line in sys.stdin.buffer:
            if line == b"quiet\n":
                self.over.set()
        self.over.set()
        for worker in workers:
            worker.join(10)
        for producer in self.producers:
            producer.close()


def _sent(
    transaction_id: str,
    handle: str | None,
    messages: Sequence[Message],
    producer: TransactionProducer,
) -> Prepared:
    """The first request of a transaction, or a further one."""
    if handle is None:
        return producer.prepare(messages, transaction_id)
    return producer.add(handle, messages)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    AppProcess(json.loads(sys.argv[1])).run()
