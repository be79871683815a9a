"""One run of RocketMQ's benchmark: its process, and what it prints while it goes on.

It is the published class with its published options; only the interval of its lines is set to a
second. It never ends by itself, so it is killed when enough was printed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from bench.children import BenchmarkError
from bench.rocketmq.plan import LOADS
from bench.rocketmq.printed import (
    Line,
    Schedule,
    Sums,
    failed_in_life,
    is_lost_end,
    is_resent,
    is_unexpected_check,
)
from bench.usage import Usage, anonymous_mib, compiling_s, rss_mib
from halfhitch.embedded import ServerProcess, find_java
from harness.rocketmq import class_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import TracebackType

    from bench.rocketmq.plan import Plan

_MAIN = "org.apache.rocketmq.example.benchmark.TransactionProducer"
_POLL_S = 0.05
_LATE_S = 60.0
_ODD_LINES_MAX = 5
#: Compiling that takes less than this share of a processor is taken for its end.
_COMPILED_SHARE = 0.1
_COMPILING_SLICE_S = 5.0
_WARM_UP_MAX = 4.0  # times what was asked for
#: Its client would write a log of its own into the user's home.
_LOGGING = """<configuration>
  <statusListener class="{core}.status.NopStatusListener"/>
  <appender name="out" class="{core}.ConsoleAppender">
    <encoder><pattern>%d %p %logger{{0}} - %m%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
""".format(core="org.apache.rocketmq.logging.ch.qos.logback.core")


@dataclass(slots=True)
class Printed:
    """Everything it has printed so far."""

    lines: list[Line] = field(default_factory=list)
    unexpected_count: int = 0  # in its whole life, not only in the measured time
    resent_count: int = 0  # in its whole life
    lost_end_count: int = 0  # in its whole life
    odd_lines: list[str] = field(default_factory=list)  # the first few that are neither

    def take(self, text: str) -> Line | None:
        """One line; gives its figures if it has some."""
        line = Line.read(text)
        if line is not None:
            self.lines.append(line)
        elif is_unexpected_check(text):
            self.unexpected_count += 1
        elif is_resent(text):
            self.resent_count += 1
        elif is_lost_end(text):
            self.lost_end_count += 1
        elif text.strip() and len(self.odd_lines) < _ODD_LINES_MAX:
            self.odd_lines.append(text.strip()[:300])
        return line

    @property
    def doubtful_count(self) -> int:
        """Messages that were sent more than once, or of which the client does not know."""
        return self.resent_count + failed_in_life(self.lines)

    @property
    def given_up_count(self) -> int:
        """Transactions, at most, that may be stored and whose end the client has never sent."""
        return failed_in_life(self.lines) + self.lost_end_count


@dataclass(frozen=True, slots=True)
class Measured:
    """One run up to its last line."""

    sums: Sums
    spent: Usage
    elapsed_s: float
    rss_mib: dict[str, tuple[float, float]]  # peak, and what no file backs, by process
    printed: Printed


class Load:
    """The process; ends with the block."""

    def __init__(
        self, plan: Plan, load: str, threads: int, address: str, batch: int, body_bytes: int
    ) -> None:
        self._plan = plan
        self._words = [
            *("-n", address, "-t", plan.topic, "-w", str(threads)),
            *("-s", str(body_bytes), "-b", str(batch), "-ri", "1000"),
            *LOADS[load],
        ]

    def run_in(self, folder: Path, name: str) -> Self:
        """Start it."""
        self._log = folder / f"{name}.log"
        heap = self._plan.heap_mib
        logging = folder / "logging.xml"
        logging.write_text(_LOGGING)
        self._process = ServerProcess(
            "the benchmark",
            [
                str(find_java().executable),
                *(f"-Xms{heap}m", f"-Xmx{heap}m", "-XX:-UsePerfData", f"-Duser.home={folder}"),
                *(f"-Drmq.logback.configurationFile={logging}", "-cp", class_path(), _MAIN),
                *self._words,
            ],
            log=self._log,
        )
        self.pid = self._process.pid
        self._read_bytes = 0
        self._rest = b""
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()

    def follow(
        self, schedule: Schedule, pids: Mapping[str, int], on_line: Callable[[Line], Any]
    ) -> Measured:
        """Until the last line of the schedule is there."""
        pids = {**pids, "client": self.pid}
        printed = Printed()
        marks: dict[int, tuple[float, Usage]] = {}
        give_up_s = time.monotonic() + schedule.last + _LATE_S
        while len(printed.lines) <= schedule.last:
            for text in self._new_lines():
                number = len(printed.lines)
                line = printed.take(text)
                if line is None:
                    continue
                if number in (schedule.first, schedule.last):
                    marks[number] = (time.monotonic(), Usage.of(pids))
                on_line(line)
            self._check(give_up_s)
            time.sleep(_POLL_S)
        (began_s, before), (ended_s, after) = marks[schedule.first], marks[schedule.last]
        return Measured(
            sums=Sums.of(printed.lines, schedule),
            spent=after.since(before),
            elapsed_s=ended_s - began_s,
            rss_mib={name: (rss_mib(pid)[1], anonymous_mib(pid)) for name, pid in pids.items()},
            printed=printed,
        )

    def warm_up(self, seconds: float, broker_pid: int) -> None:
        """For so long, and until the broker's Java has compiled most of it, within bounds."""
        began_s = time.monotonic()
        while True:
            slice_s, before_s = time.monotonic(), compiling_s(broker_pid)
            time.sleep(_COMPILING_SLICE_S)
            self._check(began_s + seconds * _WARM_UP_MAX + _LATE_S)
            now_s = time.monotonic()
            share = (compiling_s(broker_pid) - before_s) / (now_s - slice_s)
            elapsed_s = now_s - began_s
            if elapsed_s >= seconds and (
                share < _COMPILED_SHARE or elapsed_s > seconds * _WARM_UP_MAX
            ):
                return

    def stop_and_read(self, printed: Printed) -> None:
        """End it, and take what it has printed since."""
        self._process.kill()
        for text in self._new_lines():
            printed.take(text)

    def _new_lines(self) -> list[str]:
        with self._log.open("rb") as log:
            log.seek(self._read_bytes)
            new = log.read()
        self._read_bytes += len(new)
        *whole, self._rest = (self._rest + new).split(b"\n")
        return [line.decode("utf-8", "replace") for line in whole]

    def _check(self, give_up_s: float) -> None:
        if self._process.is_running and time.monotonic() < give_up_s:
            return
        what = "prints no figures in time" if self._process.is_running else "has ended"
        raise BenchmarkError(f"the benchmark {what}; it said:\n{self._process.log_tail()}")
