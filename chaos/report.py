"""docs/reliability.md, made from the record of runs and from nothing else.

Owns the page: what is promised, how it is tested, promises x faults, components x faults, figures.
A run counts for a promise only if something happened in it that could have broken that promise; a
cell without such a run says why there is none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from chaos.crash_report import crash_lines
from chaos.findings import finding_lines
from chaos.kit.scenarios import COLUMNS, CRASH, MIX, NOT_RUN, ROWS, SCENARIOS, STOP
from chaos.losses import loss_lines
from chaos.outages import LIMIT_S, SESSION_S, Outage
from chaos.soak_report import soak_lines

if TYPE_CHECKING:
    from pathlib import Path

Run = dict[str, Any]

NOTHING = "-"
DECIDED = "all decided after the fault"


def _some(*names: str) -> Callable[[Run], bool]:
    return lambda run: all(run["counters"].get(name) for name in names)


def _in(*columns: str) -> Callable[[Run], bool]:
    return lambda run: run["column"] in columns and bool(run["counters"].get("records_final"))


def _named(*parts: str) -> Callable[[Run], bool]:
    return lambda run: any(part in run["scenario"] for part in parts)


def _contested(run: Run) -> bool:
    counters = run["counters"]
    return any(counters.get(name) for name in ("contested", "conflicts", "contrary_answers"))


#: Promise -> its sentence, and which runs could have broken it.
PROMISES: dict[str, tuple[str, Callable[[Run], bool]]] = {
    "I1": ("committed: exactly once, unchanged", _some("commits_acked", "records_final")),
    "I2": ("rolled back: never visible, to no reader, at no time", _some("rollbacks_acked")),
    "I3": ("undecided: checked at most N times, then parked once", _some("checks", "parked")),
    "I4": ("what was acknowledged survives kill -9", _in("kill -9", CRASH, MIX)),
    "I5": ("the first decision counts, a later one changes nothing", _contested),
    "I6": ("Redis wiped, away or wrong: nothing changes", _named("redis", "everything")),
    "I7": ("an owner that was replaced writes nothing visible", _named("zombie", "cut", "hijack")),
    "I8": ("the watermark never passes what is needed", _some("samples", "watermarks_seen")),
    "I9": ("one key of one half partition keeps its order", _some("records_final")),
    "I10": ("no check before the immunity is over", _some("checks")),
    "I11": ("recovery is bounded", _some("faults_injected")),
    "I13": (
        "a target that refuses harms no other",
        _named("-limit", "target-isr", "-deleted", "rights-revoked", "stricter"),
    ),
    "I14": ("positions lost or set back: nothing doubled", _named("watermarks")),
    "I16": ("a wrong clock: no loss, nothing early", _named("clock")),
    "I19": ("a stop in good order loses nothing", _in(STOP)),
    "I20": (
        "releases that changed what instances share, side by side: nothing changes",
        _named("upgrade"),
    ),
    "I21": ("no Kafka transaction is left open", _some("faults_injected")),
}

ELSEWHERE = {
    "I12": "memory, threads and files stay bounded: see *Soak*; memory for each pending transaction"
    " is a row of `make bench`",
    "I15": "overload is refused, never acknowledged and then dropped: tests of the admission and"
    " the data door",
    "I17": "no secret in logs, metrics or errors: tests of settings and logs",
    "I18": "health is honest: tests of the admin door",
}

INTRO = """\
# Reliability

What Half Hitch promises when things break, and how often each promise was tested. This page is
made by `python chaos --report-only` from the records of the runs. `make faults` runs every
scenario, adds the runs to `chaos/results.jsonl`, and makes the page again.

## What is promised

- A message whose commit was acknowledged appears on its topic exactly once for readers with
  `isolation.level=read_committed`, byte for byte. A message that was rolled back never appears.
- A transaction that nobody decides is checked at most as often as the settings allow. Then it is
  parked once, with its messages.
- Kafka holds the truth. Sidecars, Redis and applications may die, stand still, lose their network
  or come back with a wrong clock at any moment.
- When an owner dies, another instance takes over within the session timeout
  (`owner.session_timeout_ms`) plus five seconds. After SIGTERM it works on until what was prepared
  at its door is ended (`drain.s_max`); then others take over within three seconds. Readers of a
  target are held back for at most `owner.transaction_timeout_ms` plus twelve seconds. One minute
  after the last fault every transaction is decided.
- Instances of different releases work together. The scenarios `upgrade-...` replace those of an
  older release by those of this one under load, and go back.

Half Hitch needs these things from you: readers with `read_committed`; topics with three replicas,
of which two must be in sync; no retention on the internal topics; and a supervisor that restarts
a sidecar that has ended. `halfhitch doctor` checks the topics.

## How it is tested

A run has three real brokers, a real Redis and two sidecars as they are shipped. Application
processes write down what they do before and after each call. They commit 80 % of their
transactions and roll back 10 %. They leave 5 % for a check that says commit, 3 % for a check that
says roll back, and 2 % are never answered. Now and then a transaction is committed and rolled
back at the same time. Each has one to four messages for three topics. A few are slow: they send
each message in a request of its own, and are checked while they grow.

The load runs before, during and after the fault. Then everything must come to rest, and a checker
compares three accounts: what the applications were told, what follows from the logs alone, and
what readers found. One reader reads during the run, one reads everything at the end, and one also
sees uncommitted records. Every message that was acknowledged before its commit was requested must
be there, whatever the logs say about it. A run in which nothing happened counts as *not run*. The
checker is tested too: deliberate mistakes must turn it red
(`chaos/promises/test_checker_goes_red.py`).

In these runs the session timeout is 6 s and the Kafka transaction timeout 10 s.
"""


def write_report(
    path: Path,
    runs: list[Run],
    limits_s: dict[str, float],
    outages: list[Outage],
    soaks: Sequence[Run],
    crashes: Sequence[Run],
) -> None:
    """The whole page."""
    done = [run for run in runs if run["verdict"] != "not run"]
    parts = [INTRO, *_figures(done, limits_s), *_outages(outages), *soak_lines(soaks)]
    parts += [
        *crash_lines(crashes),
        *loss_lines(),
        *_promises(done),
        *_components(done, runs),
        *finding_lines(),
    ]
    parts += [*_reds(done), *_scenarios(runs)]
    path.write_text("\n".join(parts).rstrip() + "\n")


def _worst(runs: list[Run], name: str) -> float | None:
    return max((run["recovery"][name] for run in runs if name in run["recovery"]), default=None)


def _figures(runs: list[Run], limits_s: dict[str, float]) -> list[str]:
    red_count = sum(run["verdict"] == "red" for run in runs)
    lone_count = sum(run.get("brokers") == 1 for run in runs)
    single = {run["scenario"] for run in runs if run["column"] != MIX}
    mixes = sum(run["column"] == MIX for run in runs)
    counted: dict[str, int] = defaultdict(int)
    for run in runs:
        for name, count in run["counters"].items():
            counted[name] += count
    lines = [
        "## Figures",
        "",
        f"{len(runs)} runs: {len(single)} single-fault scenarios, {mixes} mixes; {red_count} red.",
    ]
    if lone_count:
        lines.append(f"{lone_count} of the runs had one broker in place of three.")
    lines.append(
        "These figures show the state after repairs; they are no statistic. When the cause of a"
        " red scenario was repaired (the changelog names the repairs), its record was begun"
        " again. A run that missed a time limit while other work kept the machine busy was"
        " repeated."
    )
    lines += [
        (
            f"They have {counted['transactions']:,} transactions, {counted['checks']:,} checks,"
            f" {counted['faults_injected']:,} faults, {counted['takeovers']:,} takeovers and"
            f" {counted['steps_aborted']:,} aborted Kafka transactions."
        ),
        "",
        "| recovery | runs | worst | allowed |",
        "|---|---|---|---|",
    ]
    for name, limit_s in limits_s.items():
        having = [run for run in runs if name in run["recovery"]]
        worst = _worst(having, name)
        if worst is not None:
            lines.append(f"| {name} | {len(having)} | {worst:.1f} s | {limit_s:g} s |")
    return [*lines, ""]


def _outages(outages: list[Outage]) -> list[str]:
    """Of outages.py: how soon everything is owned again."""
    if not outages:
        return []
    lines = [
        "## Outages of Kafka",
        "",
        (
            f"`python chaos/outages.py` stops all brokers, {len(outages)} times for"
            f" {min(o.length_s for o in outages):.0f} to {max(o.length_s for o in outages):.0f} s,"
            " with SIGKILL or SIGSTOP. The sidecars have four half partitions and a session"
            f" timeout of {SESSION_S:g} s. Times count from Kafka's return. *owned* and *worst*:"
            " the median and the longest time until every half partition had a working owner;"
            f" {LIMIT_S:g} s are allowed. The other columns show the worst case. *carried*: the"
            " time until every half partition had made a transaction visible; Kafka may first"
            " have to abort what the outage left open. *untold*: how long a half partition had no"
            " owner and no instance reported it; joining always takes a moment, and is reported"
            " after 5 s. *lines*: lines in one sidecar's log. *load*: load of the machine, which"
            " has two processors."
        ),
        "",
        "| brokers | sidecars | outages | red | owned | worst | carried | untold | lines | load |",
        "|---" * 10 + "|",
    ]
    by_site: dict[tuple[int, int], list[Outage]] = defaultdict(list)
    for outage in outages:
        by_site[outage.broker_count, outage.sidecar_count].append(outage)
    for (brokers, sidecars), found in sorted(by_site.items()):
        owned = [o.owned_s for o in found if o.owned_s is not None]
        carries = [o.forwards_s for o in found if o.forwards_s is not None]
        lines.append(
            f"| {brokers} | {sidecars} | {len(found)} | {sum(o.is_red for o in found) or ''} |"
            f" {median(owned):.1f} s | {max(owned):.1f} s | {max(carries):.1f} s |"
            f" {max(o.silent_s for o in found):.1f} s | {max(max(o.lines) for o in found)} |"
            f" {max(o.machine_load for o in found):.0f} |"
        )
    return [*lines, ""]


def _cell(runs: list[Run]) -> str:
    red_count = sum(run["verdict"] == "red" for run in runs)
    worst = _worst(runs, DECIDED)
    told = f"{len(runs)} runs" if len(runs) != 1 else "1 run"
    if red_count:
        told += f", **{red_count} red**"
    return told if worst is None else f"{told}, {worst:.0f} s"


def _promises(runs: list[Run]) -> list[str]:
    columns = [*COLUMNS, MIX]
    lines = [
        "## Promises and faults",
        "",
        (
            "Each cell shows the runs that could have broken the promise, how many of them were"
            " red, and the longest time from the end of the fault until everything was decided. A"
            " dash means that no run of this kind could have broken the promise."
        ),
        "",
        "| | promise | " + " | ".join(columns) + " |",
        "|---|---" + "|---" * len(columns) + "|",
    ]
    for name, (sentence, concerns) in PROMISES.items():
        cells = []
        for column in columns:
            found = [run for run in runs if run["column"] == column and concerns(run)]
            broken = sum(name in run["invariants"] for run in found)
            cell = _cell([{**run, "verdict": "green"} for run in found]) if found else NOTHING
            cells.append(f"{cell}, **{broken} red**" if broken else cell)
        lines.append(f"| {name} | {sentence} | " + " | ".join(cells) + " |")
    lines += ["", "Not shown by these runs:", ""]
    lines += [f"- {name}: {reason}." for name, reason in ELSEWHERE.items()]
    return [*lines, ""]


def _components(done: list[Run], runs: list[Run]) -> list[str]:
    lines = [
        "## Components and faults",
        "",
        "The cells show the same as above.",
        "",
        "| component | " + " | ".join(COLUMNS) + " |",
        "|---" + "|---" * len(COLUMNS) + "|",
    ]
    notes: dict[str, int] = {}
    for row in ROWS:
        cells = []
        for column in COLUMNS:
            found = [run for run in done if (run["row"], run["column"]) == (row, column)]
            if found:
                cells.append(_cell(found))
                continue
            reason = _why_not(row, column, runs)
            number = notes.setdefault(reason, len(notes) + 1) if reason else 0
            cells.append(f"not run ({number})" if number else NOTHING)
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    lines += ["", "Not run, because:", ""]
    lines += [f"{number}. {reason}." for reason, number in notes.items()]
    return [*lines, ""]


def _why_not(row: str, column: str, runs: list[Run]) -> str | None:
    """The reason for an empty cell; None where the fault makes no sense for the component."""
    if (row, column) in NOT_RUN:
        return NOT_RUN[row, column]
    tried = [run for run in runs if (run["row"], run["column"]) == (row, column)]
    if tried:
        return str(tried[-1]["reason"])
    if any((s.row, s.column) == (row, column) for s in SCENARIOS.values()):
        return "the scenario exists, but the record has no run of it yet"
    return None


def _reds(runs: list[Run]) -> list[str]:
    red = [run for run in runs if run["verdict"] == "red"]
    if not red:
        return []
    lines = ["## Red runs", "", "| when | scenario | seed | promises | what |", "|---" * 5 + "|"]
    for run in red:
        found = [f"{name}: {len(told)}" for name, told in run["violations"].items()]
        what = "; ".join(found) or run["reason"].splitlines()[0][:120].replace("|", "/")
        promises = ", ".join(run["invariants"])
        lines.append(f"| {run['at']} | {run['scenario']} | {run['seed']} | {promises} | {what} |")
    return [*lines, ""]


def _scenarios(runs: list[Run]) -> list[str]:
    by_name: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        by_name[run["scenario"]].append(run)
    order = [*SCENARIOS, *sorted(set(by_name) - set(SCENARIOS))]
    lines = [
        "## Scenarios",
        "",
        "`python chaos --only NAME --seed N` repeats one of them.",
        "",
        "| scenario | component | fault | runs | red | takeover | readers held | all decided |",
        "|---" * 8 + "|",
    ]
    for name in order:
        found = by_name.get(name, [])
        done = [run for run in found if run["verdict"] != "not run"]
        if not done:
            scenario = SCENARIOS[name]
            why = found[-1]["reason"] if found else "no run on record"
            told = why.replace("|", "/")[:100]
            lines.append(
                f"| {name} | {scenario.row} | {scenario.column} | not run: {told} | | | | |"
            )
            continue
        red_count = sum(run["verdict"] == "red" for run in done)
        takeovers = [
            seconds
            for run in done
            for what, seconds in run["recovery"].items()
            if what.startswith("takeover")
        ]
        figures = [
            f"{max(takeovers):.1f} s" if takeovers else "",
            *(_seconds(_worst(done, what)) for what in ("readers held", DECIDED)),
        ]
        lines.append(
            f"| {name} | {done[0]['row']} | {done[0]['column']} | {len(done)} |"
            f" {red_count or ''} | {' | '.join(figures)} |"
        )
    return lines


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} s"
