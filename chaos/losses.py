"""How many of what was spoiled on purpose was found, by class: for docs/reliability.md.

`python chaos/losses.py` does it anew and writes losses.json (half a minute).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

if not __package__:
    root = Path(__file__).resolve().parents[1]
    sys.path[:1] = [str(root), str(root / "tests")]

FILE = Path(__file__).with_name("losses.json")
COUNT = 25

_TEXT = (
    "The judges are tested as well. Each class of loss is made on purpose in a simulated"
    " installation, which has all topics with what applications, doors and owners write there,"
    f" copies for checks, parking and resuming. That is done {COUNT} times with different seeds,"
    " and both judges look at it: `halfhitch verify`, which reads the topics only, and the"
    " checker of these runs, which also knows what the applications were told. *Not judged* means"
    " that verify said that it could not judge, and why, and did not say clean where"
    " all had to be judged (`--judged-min 100`; by default clean needs half, and a lone loss that"
    " retention or compaction may explain is told beside it). Both called every"
    " undamaged installation clean. `chaos/tests/test_losses.py` does the same with new seeds"
    " each time; `python chaos/losses.py` makes this table again."
)


def recorded() -> dict[str, dict[str, Any]]:
    """By class."""
    found: dict[str, dict[str, Any]] = json.loads(FILE.read_text())
    return found


def loss_lines() -> list[str]:
    """The section."""
    lines = [
        "## Losses made on purpose",
        "",
        _TEXT,
        "",
        "| what was done | seeded | verify found | verify: not judged | checker found |",
        "|---" * 5 + "|",
    ]
    notes: list[str] = []
    for name, row in recorded().items():
        seen = f"{row['found'] or ''}"
        if row["blind"]:
            notes.append(row["blind"])
            seen = f"no ({len(notes)})"
        lines.append(
            f"| {name} | {row['seeded']} | {seen} | {row['not_judged'] or ''} | {row['checker']} |"
        )
    lines += ["", *(f"{number}. {note}." for number, note in enumerate(notes, 1)), ""]
    return lines


def record() -> None:
    """Spoil and judge."""
    from chaos.kit.losing import judged
    from chaos.kit.losses import LOSSES

    table: dict[str, dict[str, Any]] = {}
    for name, one in LOSSES.items():
        results = [judged(name, seed) for seed in range(COUNT)]
        table[name] = {
            "seeded": COUNT,
            "found": sum(result.found for result in results),
            "not_judged": sum(result.not_judged for result in results),
            "checker": sum(bool(result.checked & one.checker) for result in results),
            "blind": one.blind,
        }
        print(name, table[name], flush=True)
    FILE.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    record()
