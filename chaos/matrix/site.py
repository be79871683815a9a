"""Where the matrix is played: one sidecar on a real Kafka and Redis, databases, lanes, answers.

All lanes share the servers; each has a producer group of its own for each database, in which checks
are answered from here, as by a process that was started again. What is asked about leaves a file.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from chaos.kit.log_model import identity_and_index
from chaos.matrix import programs
from chaos.matrix.judge import Message, Verdict, judge
from chaos.matrix.lane import Job, Lived, read_lived
from chaos.matrix.stores import Store
from halfhitch.barrier import Barrier
from halfhitch.client import TransactionProducer
from harness.kafka import create_topics, each_record, fresh_name, wait_until
from harness.places import python_path
from harness.sidecar import Sidecar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from halfhitch.client import Check, LocalTransactionState

#: Quick, and long enough for a life that nothing disturbs on a busy machine.
IMMUNITY_S, INTERVAL_S, ANSWER_S = 1.5, 0.7, 1.5
#: The end of a group's name that is answered from the shop's own table.
RAW = "raw"
_SETTLED_S = 120.0
_LANES_S = 3_600.0


class Site:
    """`databases`: a store for each lane, by kind."""

    def __init__(
        self,
        bootstrap: str,
        redis_url: str,
        *,
        postgresql_port: int | None = None,
        mariadb_port: int | None = None,
        lane_count: int = 4,
    ) -> None:
        self._bootstrap = bootstrap
        self._redis_url = redis_url
        self._servers = {"postgresql": postgresql_port, "mariadb": mariadb_port}
        self.lane_count = lane_count
        self.prefix = fresh_name("x") + "-"
        self.topics = {name: self.prefix + name for name in ("orders", "points", "order-events")}
        self._folder = tempfile.TemporaryDirectory(prefix="halfhitch-matrix-")
        self.folder = Path(self._folder.name)
        self.asked = self.folder / "asked"
        self._answering: dict[str, TransactionProducer] = {}
        self._numbers = 0
        self.jobs: dict[int, Job] = {}
        self.lived: dict[int, Lived] = {}

    def __enter__(self) -> Self:
        self.asked.mkdir()
        create_topics(self._bootstrap, dict.fromkeys(self.topics.values(), 2))
        self.start_sidecar()
        for kind in self.kinds:
            for lane in range(self.lane_count):
                self.store(kind, lane).set_up()
                self.barrier(self.store(kind, lane), "any").create()
                if kind != "sqlite":
                    break  # all lanes share the server
        return self

    def __exit__(self, *_: object) -> None:
        for producer in self._answering.values():
            producer.close()
        if self.sidecar.exit_code is None:
            self.sidecar.kill()
        self._folder.cleanup()

    def start_sidecar(self, **settings: str) -> None:
        """The one that serves all; another takes the place of one that was ended."""
        self.sidecar = Sidecar(
            self._bootstrap,
            self.folder,
            **{
                "HALFHITCH_REDIS_URL": self._redis_url,
                "HALFHITCH_TOPICS_PREFIX": self.prefix,
                "HALFHITCH_TOPICS_CREATE": "true",
                "HALFHITCH_TOPICS_PARTITIONS": "2",
                "HALFHITCH_CHECKS_IMMUNITY_S": str(IMMUNITY_S),
                "HALFHITCH_CHECKS_INTERVAL_S": str(INTERVAL_S),
                "HALFHITCH_CHECKS_ANSWER_S_MAX": str(ANSWER_S),
                **settings,
            },
        ).start()
        self.sidecar.wait_ready(60)

    @property
    def kinds(self) -> list[str]:
        """Which databases there are."""
        return ["sqlite", *(kind for kind, port in self._servers.items() if port)]

    def store(self, kind: str, lane: int) -> Store:
        """Of this lane; a file of its own, or the server of all."""
        if kind == "sqlite":
            return Store(kind, str(self.folder / f"lane{lane}.sqlite"))
        return Store(kind, str(self._servers[kind]))

    # -- jobs ------------------------------------------------------------------------------------

    def job(self, lane: int, kind: str, form: programs.Form, *, way: str = "", **more: Any) -> Job:
        """A new one, with its own order id, in a group of the lane's: `way` tells them apart."""
        self._numbers += 1
        store = self.store(kind, lane)
        group = f"{self.prefix}{kind}-{lane}-{way or ('barrier' if form.has_barrier else RAW)}"
        made = Job(
            number=self._numbers,
            form=form.title,
            store=(store.kind, store.place),
            group=group,
            order_id=f"{self.prefix}{self._numbers}",
            address=self.sidecar.address,
            topics=self.topics,
            asked_folder=str(self.asked),
            **more,
        )
        self.jobs[made.number] = made
        return made

    def answer(self, group: str, store: Store, *, misuse: str = "", is_raw: bool = False) -> None:
        """Checks of this group are answered from now on."""
        if group in self._answering:
            return
        ask = self._question(group, store, misuse, is_raw=is_raw or group.endswith(RAW))

        def check(asked: Check) -> LocalTransactionState:
            state = ask(asked)
            (self.asked / asked.transaction_id).touch()  # whoever waits for it goes on
            return state

        self._answering[group] = TransactionProducer(
            group, self.sidecar.address, check=check, check_workers=4
        )

    def _question(
        self, group: str, store: Store, misuse: str, *, is_raw: bool
    ) -> Callable[[Check], LocalTransactionState]:
        if misuse == programs.ROLLS_BACK_MISSING:
            from halfhitch.client import LocalTransactionState as State

            return lambda asked: State.COMMIT if store.has(asked.transaction_id) else State.ROLLBACK
        if is_raw:
            return programs.readme_check(store.has)
        return self.barrier(store, group).check

    def barrier(self, store: Store, group: str) -> Barrier:
        """As a process has it that was started again."""
        return Barrier(create_engine(store.url(), poolclass=NullPool), group)

    @contextlib.contextmanager
    def preforked(self, group: str, store: Store) -> Iterator[None]:
        """Checks are answered by two workers, of which both have inherited the engine."""
        arguments = [store.kind, store.place, group]
        with (self.folder / "prefork.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "chaos.matrix.prefork", *arguments],
                env={
                    **self.sidecar.environment,
                    "PYTHONPATH": python_path(),
                    "HALFHITCH_ADDRESS": self.sidecar.address,
                },
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        try:
            yield
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(30)

    def run(self, lanes: dict[int, list[Job]], *, is_answered: bool = True) -> None:
        """Every lane's jobs, each lane one after the other, all lanes at once."""
        for jobs in lanes.values():
            for job in jobs if is_answered else ():
                self.answer(job.group, Store(*job.store), misuse=job.misuse)
        processes, results = [], []
        for lane, jobs in lanes.items():
            given = self.folder / f"jobs-{lane}-{jobs[0].number}.jsonl"
            given.write_text("".join(job.to_json() + "\n" for job in jobs))
            results.append(given.with_suffix(".done"))
            processes.append(self._lane(given, results[-1], lane))
        try:
            for process in processes:
                status = process.wait(_LANES_S)
                assert status == 0, (self.folder / "lanes.log").read_text()[-4_000:]
        finally:
            for process in processes:
                process.kill()
        for path in results:
            self.lived |= {lived.number: lived for lived in read_lived(path)}

    def _lane(self, jobs: Path, results: Path, lane: int) -> subprocess.Popen[bytes]:
        log = self.folder / "lanes.log"
        place = str(self.folder / f"programs-{lane}.log")
        arguments = [str(jobs), str(results), place]
        with log.open("ab") as errors:
            return subprocess.Popen(
                [sys.executable, "-m", "chaos.matrix.lane", *arguments],
                env={**self.sidecar.environment, "PYTHONPATH": python_path()},
                stdout=errors,
                stderr=errors,
            )

    # -- the end ---------------------------------------------------------------------------------

    def settle(self, deadline_s: float = _SETTLED_S) -> None:
        """Until nothing is undecided, and every decision is carried out."""

        def settled() -> bool:
            status, answer = self.sidecar.ask("/v1/partitions")
            partitions = answer["partitions"] if status == 200 else []
            return len(partitions) == 2 and all(
                p["phase"] == "working"
                and p["pending_count"] == p["decided_count"] == p["early_count"] == 0
                for p in partitions
            )

        wait_until(settled, deadline_s, interval_s=0.2, what="everything decided")

    def orders(self) -> dict[str, int]:
        """All rows of all databases."""
        found: dict[str, int] = {}
        for kind in self.kinds:
            for lane in range(self.lane_count):
                found |= self.store(kind, lane).orders()
                if kind != "sqlite":
                    break
        return {order_id: n for order_id, n in found.items() if order_id.startswith(self.prefix)}

    def messages(self) -> Iterable[Message]:
        """All that a read_committed reader finds."""
        for topic in self.topics.values():
            for record in each_record(self._bootstrap, topic, deadline_s=120):
                found = identity_and_index(record.headers)
                assert found is not None, record
                (_, transaction_id), index = found
                yield Message(transaction_id, index, record.value)

    def judge(self, jobs: Sequence[Job] | None = None) -> Verdict:
        """Of everything that was run here, or of these jobs alone."""
        judged = [self.jobs[number] for number in self.lived] if jobs is None else list(jobs)
        tried = {job.order_id for job in judged}
        tried |= {f"{job.order_id}-child" for job in judged if self.lived[job.number].child_ending}
        rows, visible = self.orders(), list(self.messages())
        if jobs is not None:
            rows = {order_id: n for order_id, n in rows.items() if order_id in tried}
            visible = [message for message in visible if message.transaction_id in tried]
        others = {job.order_id for job in judged if job.retry in (programs.FEWER, programs.MORE)}
        return judge(tried, rows, visible, sent_others=others)


def by_lane(jobs: Sequence[tuple[int, Job]]) -> dict[int, list[Job]]:
    """Pairs of lane and job, as `run` wants them."""
    lanes: dict[int, list[Job]] = defaultdict(list)
    for lane, job in jobs:
        lanes[lane].append(job)
    return lanes
