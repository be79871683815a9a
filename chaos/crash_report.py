"""The section of docs/reliability.md about the crash matrix, from its record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_TEXT = (
    "`make crash-matrix` takes the programs that README, docs/barrier.md and docs/client.md show,"
    " blocking and as asyncio's, and strikes them at every step of their lives: each line of the"
    " program, of the client and of the barrier, each call of the database's driver, and on the"
    " wire before COMMIT and between COMMIT and its answer. A life is killed, paused until it has"
    " been asked about, interrupted, ended by SystemExit, cancelled, forked, raises an exception"
    " of its own, or loses the connection to its database or to the sidecar, once or for good. In a"
    " hook before the commit the local transaction is lost besides: by the driver's rollback, or by"
    " a failure that is swallowed (a deadlock on MariaDB, INSERT OR ROLLBACK on SQLite)."
    " Most of those that ended are begun again under the same id, with the same messages, fewer or"
    " more. Checks are answered as by a process that was started again. Then each order's row must"
    " have all its messages, each once, and what has no row no message. `make test-all` strikes a"
    " seeded part (`chaos/promises/test_crash_matrix.py`), and mistakes made on purpose must turn"
    " it red (`chaos/promises/test_crash_matrix_goes_red.py`)."
)
_FORK = "SQLite forbids to use a file after a fork that came while it was open: not tried."
_COLUMNS = (
    *("when", "databases", "lives", "steps struck", "paused and asked about", "wrong"),
    "verdict",
)
_EXAMPLES = 3


def crash_lines(runs: Sequence[dict[str, Any]]) -> list[str]:
    """The section; short while there is no run."""
    lines = ["## Programs that are struck", "", _TEXT, ""]
    if not runs:
        return [*lines, "No run is on record.", ""]
    lines += [f"| {' | '.join(_COLUMNS)} |", "|---" * len(_COLUMNS) + "|"]
    for run in runs:
        cells = [
            run["at"],
            ", ".join(run["databases"]),
            f"{run['lives']:,}",
            f"{run['steps_struck']:,} of {run['steps']:,}",
            f"{run['asked_while_paused']:,}",
            f"{sum(run['found'].values()):,}",
            run["verdict"] if run["verdict"] == "green" else f"**red**: {run['reason']}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", *_reds(runs), *_cells(runs[-1])]


def _reds(runs: Sequence[dict[str, Any]]) -> list[str]:
    lines: list[str] = []
    for run in runs:
        if run["verdict"] == "red":
            examples = [_short(example) for example in run["examples"][:_EXAMPLES]]
            lines += [f"Of the red run of {run['at']}:", "", *(f"- {one}" for one in examples), ""]
    return lines


def _short(example: str) -> str:
    return example.partition("; it ended")[0].replace("|", "/")


def _cells(run: dict[str, Any]) -> list[str]:
    """Lives of the last run, and how many of them were wrong."""
    done = sorted({cell for cells in run["cells"].values() for cell in cells})
    lines = [
        (
            f"Lives of the last run, by program and by what was done to it; {run['whole']:,} ended"
            f" with row and messages, {run['empty']:,} with neither. In {run['beyond']:,} another"
            " attempt under the same id had sent one message more, which appeared with the rest, as"
            f" docs/barrier.md says. {_FORK}"
        ),
        "",
        f"| done | {' | '.join(run['cells'])} |",
        "|---" * (len(run["cells"]) + 1) + "|",
    ]
    for cell in done:
        told = [_cell(cells.get(cell)) for cells in run["cells"].values()]
        lines.append(f"| {cell} | {' | '.join(told)} |")
    return [*lines, ""]


def _cell(counted: Sequence[int] | None) -> str:
    if counted is None:
        return "-"
    lives, wrong = counted
    return f"{lives:,}, **{wrong} wrong**" if wrong else f"{lives:,}"
