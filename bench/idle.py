"""What a sidecar costs that has nothing to do: `python bench/idle.py`, three minutes.

Starts one again and again on an embedded Kafka whose topics are there, and stops the time until
`/readyz` says yes; lets the last one rest, then reads the processor time and memory of its process.
`--image` runs the image of `make image`, as restricted as its test does. The probe that a pod
starts every few seconds is a process of its own: what one takes is told beside it.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

if not __package__:
    root = Path(__file__).resolve().parents[1]
    sys.path[:1] = [str(root), str(root / "tests"), str(root / "sidecar"), str(root / "cli")]

from bench.usage import exact_cpu_s
from halfhitch.embedded import EmbeddedKafka
from harness.contained import ContainedSidecar
from harness.sidecar import READY, Sidecar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LOOK_S: Final = 0.01
_READY_S: Final = 60
_MIB: Final = 1024
#: Of a production's: one instance owns them all here.
SETTINGS: Final = {
    "HALFHITCH_TOPICS_PREFIX": "idle.",
    "HALFHITCH_TOPICS_CREATE": "true",
    "HALFHITCH_TOPICS_PARTITIONS": "4",
    "HALFHITCH_OWNER_SESSION_TIMEOUT_MS": "45000",
}


@dataclass(frozen=True, slots=True)
class Memory:
    """Of one process, in MiB. `own` leaves out what it shares with others."""

    resident: float
    own: float


def memory(rollup: str) -> Memory:
    """As /proc/PID/smaps_rollup tells it."""
    kib = {
        name.rstrip(":"): int(rest[0])
        for name, *rest in (line.split() for line in rollup.splitlines()[1:])
    }
    own = kib["Private_Clean"] + kib["Private_Dirty"]
    return Memory(kib["Rss"] / _MIB, own / _MIB)


def pid_of(sidecar: Sidecar) -> int:
    """As this machine counts."""
    if isinstance(sidecar, ContainedSidecar):
        return sidecar.pid
    assert sidecar.process is not None
    return sidecar.process.pid


@contextlib.contextmanager
def started(bootstrap: str, image: str | None, **more: str) -> Iterator[tuple[Sidecar, float]]:
    """A sidecar that is ready, and how long that took."""
    kind = Sidecar if image is None else ContainedSidecar
    with tempfile.TemporaryDirectory(prefix="halfhitch-idle-") as folder:
        sidecar = kind(bootstrap, Path(folder), **SETTINGS, **more)
        if image and isinstance(sidecar, ContainedSidecar):
            sidecar.image = image
        begun = time.monotonic()
        with sidecar:
            while sidecar.ask("/readyz")[0] not in READY:
                if sidecar.exit_code is not None or time.monotonic() > begun + _READY_S:
                    raise SystemExit(sidecar.log.read_text())
                time.sleep(_LOOK_S)
            yield sidecar, time.monotonic() - begun
            sidecar.terminate()


def probe_cpu_s(sidecar: Sidecar) -> float:
    """Of one `halfhitch healthcheck`: user and system time of the process."""
    if isinstance(sidecar, ContainedSidecar):
        program = (
            "import os, subprocess; "
            "[subprocess.run(['halfhitch', 'healthcheck']) for _ in range(10)]; "
            "spent = os.times(); print(spent.children_user + spent.children_system)"
        )
        asked = ["docker", "exec", sidecar.name, "python", "-c", program]
        return float(subprocess.run(asked, stdout=subprocess.PIPE, check=True).stdout) / 10
    return 0.0


def tell(ready_s: Sequence[float], cpu_share: float, found: Memory, probe_s: float) -> str:
    """Lines for people."""
    lines = [
        f"ready after      {median(ready_s):.2f} s ({min(ready_s):.2f} to {max(ready_s):.2f})",
        f"processor        {cpu_share:.2%} of a core",
        f"memory           {found.resident:.0f} MiB resident, {found.own:.0f} MiB its own",
    ]
    if probe_s:
        lines.append(f"one probe        {probe_s * 1_000:.0f} ms of processor")
    return "\n".join(lines)


def main() -> None:
    """Measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--image", help="a container of this image instead of a process")
    parser.add_argument("--doors-only", action="store_true", help="it owns no half partition")
    parser.add_argument("--starts", type=int, default=5, help="how many are timed")
    parser.add_argument("--rest", type=float, default=60, help="seconds that are looked at")
    arguments = parser.parse_args()
    more = {"HALFHITCH_OWNER_ENABLED": "false"} if arguments.doors_only else {}
    with EmbeddedKafka() as kafka:
        with started(kafka.bootstrap, arguments.image):
            pass  # makes the topics, and fills caches
        ready_s = []
        for _ in range(arguments.starts - 1):
            with started(kafka.bootstrap, arguments.image, **more) as (_, took_s):
                ready_s.append(took_s)
        with started(kafka.bootstrap, arguments.image, **more) as (sidecar, took_s):
            ready_s.append(took_s)
            time.sleep(20)  # what belongs to the start comes to its end
            pid = pid_of(sidecar)
            before_s, begun = exact_cpu_s(pid), time.monotonic()
            time.sleep(arguments.rest)
            share = (exact_cpu_s(pid) - before_s) / (time.monotonic() - begun)
            found = memory(Path(f"/proc/{pid}/smaps_rollup").read_text())
            print(tell(ready_s, share, found, probe_cpu_s(sidecar)))


if __name__ == "__main__":
    main()
