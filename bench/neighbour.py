"""How much slower is one application when another attacks? `python bench/neighbour.py`.

A coordinator in a process of its own on the embedded Kafka, the victim's transactions over both
doors at a modest pace, and the table of attacks (harness/neighbour), one after the other and that
again and again. Each round of an attack is a phase without it and one with it; what is told is the
median of the ratios of these pairs. A quarter of an hour for five rounds, on a machine that does
nothing else.

The attacker keeps to a pace: its processor time is a part of the machine's, and so is what the
coordinator needs for each request, refused or not. That part is not what is looked for here.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

if not __package__:
    root = Path(__file__).resolve().parents[1]
    sys.path[:1] = [str(root), str(root / "tests"), str(root / "sidecar")]

from halfhitch.embedded import EmbeddedKafka, EmbeddedRedis
from harness.neighbour.street import street
from harness.neighbour.table import ATTACKS

if TYPE_CHECKING:
    from harness.neighbour.street import Round, Street


async def measure(here: Street, arguments: argparse.Namespace) -> None:
    """All rounds; then the table, also of those before one that failed."""
    chosen = [attack for attack in ATTACKS if arguments.only in attack.name_and_door]
    try:
        for number in range(arguments.rounds):
            for attack in chosen:
                await here.suffer(attack, arguments.count, arguments.count)
                if here.victim.refusals:
                    raise SystemExit(f"the victim was refused: {here.victim.refusals[0]}")
            print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr, flush=True)
        await here.victim.stop()
    finally:  # ten rounds of eleven were lost when an attacker failed in the last
        for line in table(here.rounds):
            print(line, flush=True)


def table(rounds: dict[str, list[Round]]) -> list[str]:
    """A line for each attack, and one for all; times are those of a transaction at each door."""
    lines = [
        "| attack | told | HTTP, ms | RocketMQ, ms | ratio |",
        "|---|---|---|---|---|",
    ]
    for name, found in rounds.items():
        told = sorted({answer for each in found for answer in each.told})
        times = [
            " to ".join(
                f"{median(getattr(each, when)[door] for each in found) * 1000:.1f}"
                for when in ("before_s", "with_s")
            )
            for door in ("HTTP", "RocketMQ")
        ]
        ratio = median(each.ratio for each in found)
        lines.append(f"| {name} | {', '.join(told)} | {' | '.join(times)} | {ratio:.2f} |")
    every = [each.ratio for found in rounds.values() for each in found]
    if every:
        lines.append(f"| all | | | | {median(every):.2f} |")
    return lines


async def main() -> None:
    """Starts what is needed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=5, help="of each attack")
    parser.add_argument("--count", type=int, default=20, help="transactions of a phase and door")
    parser.add_argument("--pace", type=float, default=50, help="attempts in a second")
    parser.add_argument("--only", default="", help="attacks with these words in their names")
    arguments = parser.parse_args()
    with (
        EmbeddedKafka() as kafka,
        EmbeddedRedis() as redis,
        tempfile.TemporaryDirectory(prefix="halfhitch-neighbour-") as folder,
    ):
        async with street(
            kafka.bootstrap, Path(folder), redis.url, victim_pace=40, pace=arguments.pace
        ) as here:
            await measure(here, arguments)


if __name__ == "__main__":
    asyncio.run(main())
