"""What a person waits for, with much in the logs: `make bench-operators`, half an hour or longer.

On an embedded Kafka, all through `halfhitch serve` as its users start it:

- `halfhitch tx trace ID`, as a whole command and at the door, of transactions that ended early and
  late, when the logs hold `--records` records; beside it what starting Python alone takes.
- `halfhitch tx list` with `--pending` undecided transactions, likewise.
- A scrape of `/metrics` after messages for `--topics` topics: time, and the sidecar's processor.
- What the audit topic costs a transaction: two sidecars, one with and one without, take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final
from urllib.request import urlopen

if not __package__:
    root = Path(__file__).resolve().parents[1]
    sys.path[:1] = [str(root), str(root / "tests"), str(root / "sidecar"), str(root / "cli")]

from bench import stage
from bench.children import Child, plain_environment
from bench.usage import exact_cpu_s
from halfhitch.embedded import EmbeddedKafka, unwind_on_sigterm
from halfhitch.wire.topics import InternalTopics
from harness.kafka import bounds, create_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_FILL_S: Final = 10.0
_FILL_CALLERS: Final = 64
_PREPARE_CALLERS: Final = 32
_AUDIT_CALLERS: Final = 32
_IDS: Final = 5  # of the first that have ended, and of the last
_WAIT_S: Final = 300.0
#: So that nothing is refused for being too much.
_BOUNDS: Final = {
    "HALFHITCH_LIMITS_UNDECIDED_MAX": "1000000",
    "HALFHITCH_LIMITS_UNDECIDED_GROUP_MAX": "1000000",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of everything."""

    record_count: int
    pending_count: int
    topic_count: int
    rounds: int
    turns: int
    turn_s: float


@dataclass(slots=True)
class Table:
    """What was measured, in lines as they will be printed."""

    rows: list[tuple[str, str, str, str]] = field(default_factory=list)

    def times(self, what: str, taken_s: Sequence[float], note: str = "") -> None:
        """Of several rounds."""
        low, middle, high = (1_000 * f(taken_s) for f in (min, median, max))
        self.rows.append((what, f"{middle:.0f} ms", f"{low:.0f} to {high:.0f}", note))

    def __str__(self) -> str:
        rows = [("what", "median", "least to most", ""), *self.rows]
        widths = [max(len(row[place]) for row in rows) for place in range(4)]
        lines = ("  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)) for row in rows)
        return "\n".join(line.rstrip() for line in lines)


def read_plan(words: Sequence[str] | None = None) -> Plan:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--records", type=int, default=1_000_000, help="in half, op and audit log")
    parser.add_argument("--pending", type=int, default=100_000, help="undecided transactions")
    parser.add_argument("--topics", type=int, default=500, help="that messages went to")
    parser.add_argument("--rounds", type=int, default=15, help="of each question")
    parser.add_argument("--turns", type=int, default=20, help="with and without the audit topic")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each such turn")
    given = parser.parse_args(words)
    return Plan(
        given.records, given.pending, given.topics, given.rounds, given.turns, given.seconds
    )


def timed(doing: Callable[[], Any]) -> float:
    """How many seconds it took."""
    began_s = time.monotonic()
    doing()
    return time.monotonic() - began_s


def asked(url: str) -> bytes:
    """The answer of an admin door."""
    with urlopen(url, timeout=_WAIT_S) as response:
        answer: bytes = response.read()
    return answer


def command(*words: str) -> None:
    """One `halfhitch`, piped; it must succeed."""
    # Not by `-m`, which looks for the module first: as the program that pip makes.
    program = "import sys; from halfhitch_cli.app import main; sys.exit(main())"
    subprocess.run(
        [sys.executable, "-c", program, *words],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=plain_environment(),
    )


def python() -> None:
    """Nothing but the start of Python."""
    subprocess.run([sys.executable, "-c", "pass"], check=True, env=plain_environment())


def log_counts(bootstrap: str, prefix: str) -> dict[str, int]:
    """How many records each log has had, by topic; Kafka's own markers among them."""
    topics = InternalTopics(prefix)
    return {
        topic: sum(bounds(bootstrap, topic, "read_uncommitted")[1].values())
        for topic in (topics.half, topics.op, topics.audit)
    }


async def prepare(address: str, topics: Sequence[str], count: int) -> list[str]:
    """So many transactions that are left undecided, one message for one topic each: handles."""
    numbers = iter(range(count))
    handles: list[str] = []

    async def one_caller() -> None:
        reader, writer = await asyncio.open_unix_connection(address.partition(":")[2])
        for number in numbers:
            writer.write(
                b"POST /v1/topics/%b/half HTTP/1.1\r\nHost: localhost\r\n"
                b"Half-Producer-Group: bench\r\nContent-Length: 100\r\n\r\n%b"
                % (topics[number % len(topics)].encode(), b"x" * 100)
            )
            head, _ = await answer_of(reader)
            if not head.startswith(b"HTTP/1.1 201 "):
                raise SystemExit(f"a prepare was answered with {head!r}")
            handles.append(head.partition(b"Half-Handle: ")[2].partition(b"\r")[0].decode())
        writer.close()
        await writer.wait_closed()

    async with asyncio.TaskGroup() as group:
        for _ in range(min(count, _PREPARE_CALLERS)):
            group.create_task(one_caller())
    return handles


async def commit(address: str, handles: Sequence[str]) -> None:
    """All of them, and wait until they are visible."""
    reader, writer = await asyncio.open_unix_connection(address.partition(":")[2])
    for handle in handles:
        writer.write(
            b"POST /v1/transactions/%b/commit?wait=visible HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Length: 0\r\n\r\n" % handle.encode()
        )
        head, _ = await answer_of(reader)
        if not head.startswith(b"HTTP/1.1 200 "):
            raise SystemExit(f"a commit was answered with {head!r}")
    writer.close()
    await writer.wait_closed()


async def answer_of(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Head and body."""
    head = await reader.readuntil(b"\r\n\r\n")
    size_bytes = int(head.partition(b"Content-Length: ")[2].partition(b"\r")[0])
    return head, await reader.readexactly(size_bytes)


class Loads:
    """A process that prepares and commits, and its orders."""

    def __init__(self, child: Child, folder: Path) -> None:
        self._child = child
        self._folder = folder
        self._cell = 0

    def run(self, sidecar: stage.Sidecar, callers: int, seconds: float) -> int:
        """How many transactions were committed."""
        self._cell += 1
        answer = self._child.order(
            {
                "cell": self._cell, "concurrency": callers, "seconds": seconds, "keyed": True,
                "wait": False, "stamps": str(self._folder / "sent"),
                "address": sidecar.address("unix"),
            }
        )  # fmt: skip
        return int(answer["count"])


def fill(kafka: str, sidecar: stage.Sidecar, loads: Loads, plan: Plan) -> tuple[list[str], str]:
    """Transactions until there are as many records: ids that ended early and late, and a note."""
    count = loads.run(sidecar, _FILL_CALLERS, min(_FILL_S, plan.record_count / 10_000))
    early = ended(sidecar)
    while (found := sum(log_counts(kafka, "kept-").values())) < plan.record_count:
        print(f"{found} records of {count} transactions", file=sys.stderr)
        count += loads.run(sidecar, _FILL_CALLERS, _FILL_S)
    note = ", ".join(f"{n} {topic}" for topic, n in log_counts(kafka, "kept-").items())
    return [*early, *ended(sidecar)], f"{count} transactions: {note}"


def ended(sidecar: stage.Sidecar) -> list[str]:
    """Some that ended just now."""
    answer = json.loads(asked(f"{sidecar.admin}/v1/stories?since_s=3600&limit={_IDS}"))
    return [story["transaction_id"] for story in answer["stories"]]


def measure_question(
    table: Table,
    sidecar: stage.Sidecar,
    what: str,
    ways: Sequence[tuple[Sequence[str], str]],
    n: int,
) -> None:
    """Command, door and Python in turns; `ways` are the words of a command and the door's path."""
    whole_s, own_s, door_s, sidecar_s, python_s = [], [], [], [], []
    for number in range(n):
        words, path = ways[number % len(ways)]
        before_s, begun_s = children_cpu_s(), time.monotonic()
        command(*words, "--server", sidecar.admin)
        whole_s.append(time.monotonic() - begun_s)
        own_s.append(children_cpu_s() - before_s)
        before_s, begun_s = exact_cpu_s(sidecar.pid), time.monotonic()
        asked(sidecar.admin + path)
        door_s.append(time.monotonic() - begun_s)
        sidecar_s.append(exact_cpu_s(sidecar.pid) - before_s)
        python_s.append(timed(python))
    table.times(f"{what}, whole command", whole_s)
    table.times(f"{what}, processor of the command", own_s)
    table.times(f"{what}, at the door", door_s)
    table.times(f"{what}, processor of the sidecar", sidecar_s)
    table.times("beside it: python -c pass", python_s)


def children_cpu_s() -> float:
    """Of the processes that were waited for."""
    spent = os.times()
    return spent.children_user + spent.children_system


def measure_trace(table: Table, sidecar: stage.Sidecar, ids: Sequence[str], rounds: int) -> None:
    """Of these transactions."""
    ways = [(("tx", "trace", one), f"/v1/stories?id={one}") for one in ids]
    measure_question(table, sidecar, "tx trace", ways, rounds)


def measure_list(table: Table, sidecar: stage.Sidecar, plan: Plan) -> None:
    """With so many pending."""
    begun_s = time.monotonic()
    asyncio.run(prepare(sidecar.address("unix"), [stage.TARGET], plan.pending_count))
    print(f"{plan.pending_count} prepared in {time.monotonic() - begun_s:.0f} s", file=sys.stderr)
    path = "/v1/transactions?limit=100"
    while json.loads(asked(sidecar.admin + path))["total_count"] < plan.pending_count:
        time.sleep(0.1)  # the owner reads what was stored
    measure_question(table, sidecar, "tx list", [(("tx", "list"), path)], plan.rounds)


def measure_scrape(table: Table, kafka: str, sidecar: stage.Sidecar, plan: Plan) -> None:
    """Of a sidecar that has forwarded to so many topics."""
    topics = [f"bench-scraped-{number:04}" for number in range(plan.topic_count)]
    create_topics(kafka, dict.fromkeys(topics, 1))
    address = sidecar.address("unix")
    asyncio.run(commit(address, asyncio.run(prepare(address, topics, len(topics)))))
    url = f"{sidecar.admin}/metrics"
    size = len(asked(url).splitlines())
    taken_s, cpu_s = [], []
    for _ in range(plan.rounds):
        before_s = exact_cpu_s(sidecar.pid)
        taken_s.append(timed(lambda: asked(url)))
        cpu_s.append(exact_cpu_s(sidecar.pid) - before_s)
    table.times("a scrape", taken_s, f"{size} lines, {plan.topic_count} topics")
    table.times("a scrape, processor of the sidecar", cpu_s)


def measure_audit(table: Table, kafka: EmbeddedKafka, folder: Path, loads: Loads, p: Plan) -> None:
    """Two sidecars in turns, who begins changing: processor for a transaction, and the rate."""
    sides: dict[str, list[tuple[float, float, float]]] = {"true": [], "false": []}
    with ExitStack() as stack:
        sidecars = {
            enabled: stack.enter_context(
                stage.Sidecar(
                    kafka.bootstrap, folder, f"audit-{enabled}-", HALFHITCH_AUDIT_ENABLED=enabled
                )
            )
            for enabled in sides
        }
        for number in range(-2, p.turns):
            for enabled in sorted(sides, reverse=number % 2 == 0):
                turn = audit_turn(kafka, sidecars[enabled], loads, p.turn_s)
                if number >= 0:  # two to get warm
                    sides[enabled].append(turn)
    for place, what in enumerate(
        ("audit topic, processor of the sidecar", "audit topic, of the broker", "audit topic, rate")
    ):
        pairs = list(zip(sides["true"], sides["false"], strict=True))
        ratios = sorted(on[place] / off[place] for on, off in pairs)
        on, off = (median(turn[place] for turn in sides[name]) for name in ("true", "false"))
        unit = "per s" if place == 2 else "us a transaction"
        table.rows.append(
            (
                what,
                f"{median(ratios):.2f} times",
                f"{ratios[0]:.2f} to {ratios[-1]:.2f}",
                f"{on:.0f} with, {off:.0f} without, {unit}, {_AUDIT_CALLERS} callers",
            )
        )


def audit_turn(
    kafka: EmbeddedKafka, sidecar: stage.Sidecar, loads: Loads, seconds: float
) -> tuple[float, float, float]:
    """Microseconds of sidecar and broker for a transaction, and transactions in a second."""
    broker = kafka.broker_pid()
    before_s, broker_s, begun_s = exact_cpu_s(sidecar.pid), exact_cpu_s(broker), time.monotonic()
    count = loads.run(sidecar, _AUDIT_CALLERS, seconds)
    taken_s = time.monotonic() - begun_s
    spent_s, broker_s = exact_cpu_s(sidecar.pid) - before_s, exact_cpu_s(broker) - broker_s
    return spent_s / count * 1e6, broker_s / count * 1e6, count / taken_s


def main() -> None:
    """Measures, prints."""
    plan, table = read_plan(), Table()
    with ExitStack() as stack:
        stack.enter_context(unwind_on_sigterm())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="halfhitch-seen-")))
        kafka = stack.enter_context(EmbeddedKafka())
        stage.make_topics(kafka.bootstrap)
        given = {"bootstrap": kafka.bootstrap, "topic": stage.TARGET}
        child = Child("load_http", given, log=folder / "load.log")
        loads = Loads(stack.enter_context(child), folder)
        with stage.Sidecar(kafka.bootstrap, folder, "kept-", **_BOUNDS) as sidecar:
            ids, note = fill(kafka.bootstrap, sidecar, loads, plan)
            measure_trace(table, sidecar, ids, plan.rounds)
            measure_scrape(table, kafka.bootstrap, sidecar, plan)
            measure_list(table, sidecar, plan)
        measure_audit(table, kafka, folder, loads, plan)
    print(f"{note}\n\n{table}")


if __name__ == "__main__":
    main()
