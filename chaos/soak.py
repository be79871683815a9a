"""The soak: very many transactions of the mixed load under one fault after the other, then judged.

Three brokers and two sidecars. Sidecar `b` lives from the beginning to the end, so that what it
uses can be compared, early with late; it is paused beyond its session, loses and gains partitions,
and sees its brokers and its Redis die. Sidecar `a` is killed and stopped as well.

The finished are remembered for a minute here, the least that the settings take: what is remembered
for a time is flat only after that time.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from chaos.kit import nemesis as do
from chaos.kit import strangers
from chaos.kit.log_model import read_half
from chaos.kit.readers import READ_COMMITTED, Seen
from chaos.kit.slots import Books
from chaos.kit.soak_judge import KINDS, SoakJudge, growth
from chaos.kit.stage import TARGET_PARTITIONS, Stage
from harness.kafka import each_record
from harness.native import wrong_ways

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chaos.kit.fault_sidecar import FaultSidecar
    from chaos.kit.soak_judge import Growth
    from chaos.kit.stage import Scene

RECORD = Path(__file__).with_name("soak.jsonl")
DEFAULT_COUNT = 1_000_000

_SETTINGS = {
    "HALFHITCH_LEDGER_HORIZON_S": "60",
    "HALFHITCH_CHECKS_ANSWER_S_MAX": "4",
}
_SAMPLE_S = 2.0
#: Of the whole run, at its beginning: caches fill, threads start.
_WARM_UP = 0.25
_QUIET_S = (4.0, 10.0)
_STANDSTILL_S = 180.0
_DECIDED_S = 300.0
_READ_S = 1_200.0
#: Ctrl-C or SIGTERM: no more faults and no more load; what there is by then is judged.
_is_enough = threading.Event()
_FDS_SLACK = 24.0
#: Another partition brings a handful; a client that is left behind at each takeover brings more.
_CLIENTS_SLACK = 4.0
_RSS_SLACK_MIB = 12.0
_RSS_RATIO = 1.15


@dataclass(slots=True)
class Soaked:
    """What came of it, as it stands in the record."""

    at: str
    seed: int
    asked_for: int
    verdict: str = "red"
    reason: str = ""
    transactions: int = 0
    seconds: float = 0.0
    counters: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    found: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)
    recovery: dict[str, float] = field(default_factory=dict)
    use: dict[str, dict[str, Any]] = field(default_factory=dict)
    # A curve says more than a ratio. MiB, and librdkafka's clients that are alive.
    memory_by_tenth: list[int] = field(default_factory=list)
    clients_by_tenth: list[int] = field(default_factory=list)
    ways: list[str] = field(default_factory=list)  # of the sidecars; [] in older lines: interpreted
    machine_load: float = 0.0


class Use(threading.Thread):
    """Samples what one process uses: memory in MiB, descriptors, threads, Kafka clients."""

    def __init__(self, pid: int) -> None:
        super().__init__(name="use", daemon=True)
        self.pid = pid
        self._over = threading.Event()
        self.samples: list[tuple[float, int, int, int]] = []

    def run(self) -> None:
        while not self._over.wait(_SAMPLE_S):
            try:
                self.samples.append(use_of(self.pid))
            except (OSError, KeyError):
                # A thread or file of its has gone in between; or all of it, and nothing comes.
                continue

    def stop(self) -> None:
        """No more."""
        self._over.set()
        self.join(10)

    def by_tenth(self, what: int) -> list[int]:
        """Median of each tenth of the run; `what` is a place in a sample."""
        length = len(self.samples)
        cuts = [self.samples[length * n // 10 : length * (n + 1) // 10] for n in range(10)]
        return [round(median(one[what] for one in cut)) for cut in cuts if cut]

    def growths(self) -> dict[str, Growth]:
        """Of each, after the warming up."""
        kept = self.samples[int(len(self.samples) * _WARM_UP) :]
        memory, files, threads, clients = ([float(one[n]) for one in kept] for n in range(4))
        return {
            "memory, MiB": growth(memory, ratio_max=_RSS_RATIO, slack=_RSS_SLACK_MIB),
            "descriptors": growth(files, slack=_FDS_SLACK),
            "threads": growth(threads, slack=_FDS_SLACK),
            "Kafka clients": growth(clients, slack=_CLIENTS_SLACK),
        }


def use_of(pid: int) -> tuple[float, int, int, int]:
    """What it uses now, as a sample."""
    process = Path(f"/proc/{pid}")
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    files = sum(1 for _ in (process / "fd").iterdir())
    # Each client of librdkafka has one such thread for as long as it lives.
    clients = sum(one.read_text().startswith("rdk:main") for one in process.glob("task/*/comm"))
    return int(status["VmRSS"].split()[0]) / 1024, files, int(status["Threads"]), clients


def _of(name: str, *, act: Callable[..., None], **more: Any) -> Callable[[Scene], None]:
    return lambda scene: act(scene, scene.sidecars[name], **more)


def _hang(topic: Callable[[Scene], str]) -> Callable[[Scene], None]:
    def act(scene: Scene) -> None:
        with strangers.hanging(scene, topic(scene)):
            scene.go_on(5)

    return act


_BEYOND: dict[str, Any] = {"act": do.pause_sidecar, "seconds": 9, "beyond_session": True}

#: What is drawn from. Each heals itself; sidecar b never ends.
FAULTS: tuple[tuple[str, Callable[[Scene], None]], ...] = (
    ("kill -9 of a sidecar", _of("a", act=do.kill_sidecar)),
    ("orderly stop of a sidecar", _of("a", act=do.stop_sidecar)),
    ("sidecar paused beyond its session", _of("a", **_BEYOND)),
    ("sidecar paused beyond its session", _of("b", **_BEYOND)),
    ("sidecar paused", _of("b", act=do.pause_sidecar, seconds=3, beyond_session=False)),
    ("kill -9 of a broker", lambda scene: do.kill_broker(scene, "target", 1.0)),
    ("kill -9 of a coordinator", lambda scene: do.kill_broker(scene, "transactions", 1.0)),
    ("orderly stop of a broker", lambda scene: do.stop_broker(scene, "half")),
    ("broker paused", lambda scene: do.pause_broker(scene, "half", 3)),
    ("application killed", do.kill_apps),
    ("application paused", lambda scene: do.pause_apps(scene, 4.0)),
    ("Redis killed", lambda scene: do.kill_redis(scene, 1.0)),
    ("Redis wiped", lambda scene: do.wipe_redis(scene, random.Random(1), rounds=2)),
    ("transactional ids hijacked", lambda scene: do.hijack(scene, 1)),
    ("a stranger's Kafka transaction on a target", _hang(lambda scene: scene.targets[0])),
    ("a stranger's Kafka transaction on the half log", _hang(lambda scene: scene.names.half)),
    ("a stranger's Kafka transaction on the op log", _hang(lambda scene: scene.names.op)),
)  # fmt: skip


def soak(count: int, seed: int) -> Soaked:
    """Run it and judge it. Never raises what a fault has caused.

    SIGINT and SIGTERM end the load: what there is by then is judged.
    """
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    result = Soaked(at, seed, count)
    _is_enough.clear()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: _is_enough.set())
    began_s = time.monotonic()
    options = {
        "settings": _SETTINGS,
        "is_watched": False,
        "module": "chaos.kit.soak_app",
        "rate_per_s": 1e9,
        "thread_count": 24,
        "slow_percent": 0.1,
    }
    with Stage(disk_mib=0) as stage:
        stage.repair()
        with stage.scene(seed, **options) as scene:
            try:
                _course(scene, result, random.Random(seed))
            except Exception as error:  # noqa: BLE001 - a run that broke off is a result
                result.reason = f"{type(error).__name__}: {error}"[:2_000]
            if result.reason or result.verdict == "red":
                scene.keep()
    result.seconds = round(time.monotonic() - began_s, 1)
    result.machine_load = round(os.getloadavg()[0], 1)
    return result


def _course(scene: Scene, result: Soaked, rng: random.Random) -> None:
    result.recovery = scene.recovery
    books, witness = Books(scene.histories), scene.sidecars["b"]
    use = Use(_pid_of(witness))
    use.start()
    began_s = time.monotonic()
    done: Counter[str] = Counter()
    try:
        _disturb(scene, books, result.asked_for, rng, done)
        scene.quieten()
        took_s = time.monotonic() - began_s
        # Flat is judged while there was work: what is idle gives nothing back at once.
        use.stop()
        scene.recovery["all decided after the load"] = round(scene.wait_decided(_DECIDED_S), 1)
    finally:
        use.stop()
        result.faults = dict(done)
    for app in scene.apps:
        app.close()
    judge = _judged(scene, books)
    result.transactions = judge.counters["transactions"]
    result.counters = {**judge.counters, "per_second": round(result.transactions / took_s)}
    result.counters["takeovers"] = scene.count_in_logs("action=partition_taken_over")
    result.counters["steps_aborted"] = scene.count_in_logs("action=step_failed")
    result.found = {kind: judge.found_counts[kind] for kind in KINDS}
    result.examples = judge.examples
    growths = use.growths()
    result.use = {what: {**asdict(one), "is_flat": one.is_flat} for what, one in growths.items()}
    result.memory_by_tenth, result.clients_by_tenth = use.by_tenth(0), use.by_tenth(3)
    wrong = [f"{count} {kind}" for kind, count in result.found.items() if count]
    wrong += [f"{what} have grown" for what, one in growths.items() if not one.is_flat]
    wrong += [told for told in scene.revived if "status -" in told]
    result.ways = scene.ways()
    if wrong_way := wrong_ways(result.ways):
        wrong.append(wrong_way)
    if _pid_of(witness) != use.pid:
        wrong.append("the sidecar that was to live all the time has ended")
    result.reason = "; ".join(wrong)
    result.verdict = "red" if wrong else "green"


def _pid_of(sidecar: FaultSidecar) -> int:
    assert sidecar.process is not None
    return sidecar.process.pid


def _disturb(
    scene: Scene, books: Books, count: int, rng: random.Random, done: Counter[str]
) -> None:
    """Fault after fault, each of them once before any comes again, until the load is through."""
    left: list[tuple[str, Callable[[Scene], None]]] = []
    reached, moved_s = 0, time.monotonic()
    while (so_far := books.count()) < count and not _is_enough.is_set():
        if so_far > reached:
            reached, moved_s = so_far, time.monotonic()
        elif time.monotonic() - moved_s > _STANDSTILL_S:
            raise TimeoutError(f"no transaction since {_STANDSTILL_S:g} s, {so_far} so far")
        if not left:
            left = rng.sample(FAULTS, len(FAULTS))
        name, act = left.pop()
        print(f"  {so_far:,} of {count:,}; {name}", flush=True)
        act(scene)
        done[name] += 1
        scene.go_on(rng.uniform(*_QUIET_S))
        scene.revive()


def _judged(scene: Scene, books: Books) -> SoakJudge:
    """Everything is at rest: read all targets and the parked topic anew."""
    bootstrap = scene.stage.kafka.bootstrap
    judge = SoakJudge(books.all(), scene.targets, TARGET_PARTITIONS)
    for topic in scene.targets:
        for r in each_record(bootstrap, topic, READ_COMMITTED, _READ_S):
            judge.visible(Seen(topic, r.partition, r.offset, r.key, r.value, r.headers))
    parked = scene.names.parked
    for r in each_record(bootstrap, parked, READ_COMMITTED, _READ_S):
        seen = Seen(parked, r.partition, r.offset, r.key, r.value, r.headers)
        if seen.headers and seen.headers[-1][0] == "HALFHITCH_PARKED" and len(seen.headers) > 1:
            half = read_half(seen.with_headers(seen.headers[:-1]))
            judge.parked(half.identity[1], half.index)
    judge.finish()
    return judge


def keep(result: Soaked, record: Path = RECORD) -> None:
    """Append it to the record."""
    with record.open("a") as file:
        file.write(json.dumps(asdict(result)) + "\n")


def recorded(record: Path = RECORD) -> Sequence[dict[str, Any]]:
    """All soaks that are on record."""
    if not record.exists():
        return []
    return [json.loads(line) for line in record.read_text().splitlines() if line]
