"""The section of docs/reliability.md about the crash matrix, from its record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_TEXT = (
    "`make crash-matrix` takes the programs in README, docs/barrier.md and docs/client.md, in"
    " their blocking and their asyncio form, and disturbs them at every step. A step is a line of"
    " the program, the client or the barrier, a call of the database driver, the moment before"
    " COMMIT goes over the wire, or the moment between COMMIT and its answer. One run of a"
    " program is a *life*. A life is killed, paused until its transaction has been checked,"
    " interrupted, ended by SystemExit, cancelled or forked; or it raises an exception, or loses"
    " its connection to the database or the sidecar, once or for good. Also, a hook before the"
    " commit loses the local transaction: by the driver's rollback, or by a failure that is"
    " swallowed (a deadlock on MariaDB, INSERT OR ROLLBACK on SQLite). Most programs that ended"
    " are started again under the same id, with the same messages, fewer or more. Checks are"
    " answered as by a restarted process. In the end an order with a row must have all its"
    " messages, each once, and an order without a row must have none. `make test-all` runs a"
    " random part of the matrix with a known seed (`chaos/promises/test_crash_matrix.py`), and"
    " deliberate mistakes must turn it red (`chaos/promises/test_crash_matrix_goes_red.py`)."
)
_FORK = (
    "SQLite forbids the use of a database across a fork while it is open, so that was not tried."
)
_COLUMNS = (
    *("when", "databases", "lives", "steps struck", "paused and asked about", "wrong"),
    "verdict",
)
_EXAMPLES = 3


def crash_lines(runs: Sequence[dict[str, Any]]) -> list[str]:
    """The section; short while there is no run."""
    lines = ["## Programs that are disturbed at every step", "", _TEXT, ""]
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
        if run["verdict"] == "red" and run["examples"]:
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
            "The table shows the lives of the last run, by program and by what was done to it."
            f" {run['whole']:,} ended with row and messages, {run['empty']:,} with neither. In"
            f" {run['beyond']:,} another attempt under the same id had sent one message more, which"
            f" appeared with the rest, as docs/barrier.md says. {_FORK}"
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
