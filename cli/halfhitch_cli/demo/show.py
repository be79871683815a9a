"""What the demo shows: how it goes on, and the books at its end."""

import shlex
import sys
import time
from typing import Any, Final

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from halfhitch.wire.plain import shown
from halfhitch_cli.demo.figures import Figures
from halfhitch_cli.demo.stage import Stage
from halfhitch_cli.demo.verdict import Verdict
from halfhitch_cli.demo.watch import Sight
from halfhitch_cli.output import say

_LINE_EVERY_S: Final = 5.0
_CUSTOMERS_MAX: Final = 10
#: What became of checks, in words.
_ANSWERS: Final = {
    "commit": "answered: committed",
    "rollback": "answered: rolled back",
    "unknown": "answered: cannot say yet",
    "decided": "decided meanwhile",
    "silent": "asked by the sidecar that was killed, or no answer in time",
    "no_answer": "answered with something else",
    "lost": "lost on the way, sent again",
    "undelivered": "not delivered, sent again",
}


class Display:
    """A picture that is drawn anew on a terminal; elsewhere a line now and then."""

    def __init__(self, console: Console, live: Live, order_count: int) -> None:
        self._is_terminal = console.is_terminal
        self._live = live
        self._order_count = order_count
        self._line_due_s = 0.0

    def show(self, sight: Sight) -> None:
        """What there is to be seen now."""
        if self._is_terminal:
            self._live.update(_picture(sight, self._order_count))
        elif time.monotonic() >= self._line_due_s:
            self._line_due_s = time.monotonic() + _LINE_EVERY_S
            say(_line(sight))


def _line(sight: Sight) -> str:
    figures = sight.figures
    return (
        f"{sight.elapsed_s:5.0f} s  attempted {sight.attempted}, in the database {sight.taken}, "
        f"visible {sight.visible}, in Spark {sight.spark_rows}, shops died {sight.shop_deaths}; "
        f"pending {figures.pending}, due {figures.due}, checks {figures.checks_sent}, "
        f"decided {figures.decided}, parked {figures.given_up}"
    )


def _picture(sight: Sight, order_count: int) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, count in (
        ("orders attempted", sight.attempted),
        ("in the database", sight.taken),
        ("visible on Kafka", sight.visible),
        ("summed by Spark", sight.spark_rows),
    ):
        table.add_row(name, ProgressBar(order_count, min(count, order_count), width=40), str(count))
    figures = sight.figures
    for name, count in (
        ("shops died", sight.shop_deaths),
        ("sidecar died", sight.sidecar_deaths),
        ("pending", figures.pending),
        ("checks due", figures.due),
        ("checks sent", figures.checks_sent),
        ("decided", figures.decided),
        ("parked", figures.given_up),
    ):
        table.add_row(name, "", str(count))
    return table


def show_totals(totals: list[dict[str, Any]], stage: Stage) -> None:
    """A chart of what Spark's facts give, the largest first; and where it and they lie."""
    most = max((total["points"] or 0 for total in totals), default=0) or 1
    table = Table(title="Points of customers, by Spark's facts", show_header=False, box=None)
    for total in totals[:_CUSTOMERS_MAX]:
        points = total["points"] or 0
        bar = ProgressBar(most, points, width=40, complete_style="blue", finished_style="blue")
        told = f"{points:,} points, {total['orders']:,} orders"
        table.add_row(shown(total["customer"] or "nobody"), bar, told)
    console = Console()
    console.print(table)
    if len(totals) > _CUSTOMERS_MAX:
        say(f"... and {len(totals) - _CUSTOMERS_MAX} more customers.")
    folder = stage.spark_folder
    say(f"Facts (kept with --keep): {folder / 'facts'}, chart: {folder / 'totals.svg'}")


def show_books(verdict: Verdict, stage: Stage, figures: Figures) -> None:
    """The table at the end, and what was parked."""
    table = Table(title="The books", show_header=False)
    for section in (
        (
            ("orders in the database", verdict.taken),
            ("attempts without an order (rolled back, died)", verdict.rolled_back_or_lost_attempts),
            ("messages visible on orders", verdict.visible_orders),
            ("messages visible on points", verdict.visible_points),
            ("messages summed by Spark", verdict.spark_rows),
            ("points in the database", verdict.points_in_database),
            ("points in Spark", verdict.points_in_spark),
            ("orders with their points in Spark's facts", verdict.facts),
        ),
        (
            ("shop processes killed", stage.shop_deaths),
            ("sidecar killed", stage.sidecar_deaths),
            ("Spark killed", stage.spark_deaths),
            ("checks sent", figures.checks_sent),
            *((f"  {_ANSWERS[name]}", count) for name, count in _answers(figures)),
            ("late local commits, refused by the fence", verdict.refused),
        ),
    ):
        for name, count in section:
            table.add_row(name, f"{count:,}")
        table.add_section()
    for name, wrong in (
        ("lost", verdict.lost),
        ("doubled", verdict.doubled),
        ("invented", verdict.invented),
        ("undecided", verdict.undecided),
        ("customers whose totals in Spark are wrong", verdict.wrong_totals),
        ("committed locally in spite of a fence", verdict.slipped_through),
    ):
        table.add_row(name, f"[{'green' if wrong == 0 else 'bold red'}]{wrong}[/]")
    style = "bold red" if verdict.misparked else "green"
    table.add_row("parked (nobody could answer)", f"[{style}]{len(verdict.parked)}[/]")
    console = Console()
    console.print(table)
    _show_parked(verdict, stage)
    if verdict.is_right:
        console.print(
            "The books balance. Next: [bold]halfhitch dev[/] runs Kafka and a sidecar here for "
            "your own program; README.md shows the first lines of it."
        )
    else:
        console.print("[bold red]The books do not balance.[/] Please report it, with the seed.")


def _answers(figures: Figures) -> list[tuple[str, int]]:
    """Those that every run has; and others if there were any."""
    always = ("commit", "rollback", "unknown")
    return [(n, figures.answers[n]) for n in _ANSWERS if n in always or figures.answers[n]]


def _show_parked(verdict: Verdict, stage: Stage) -> None:
    """Each with its reason, and what puts them back. Lines are not folded: one is to be pasted."""
    ids: dict[str, list[str]] = {}
    for parking in verdict.parked:
        group, transaction_id = parking.identity
        ids.setdefault(group, []).append(transaction_id)
        why, topics = parking.first.why, ", ".join(parking.topics)
        sys.stdout.write(f"Parked: {transaction_id} of {group} for {topics}: {why.detail}\n")
    for misparked_id in sorted(verdict.misparked):
        sys.stdout.write(f"Parked, and should not be, or the other way round: {misparked_id}\n")
    for its_group, its_ids in ids.items():
        words = ["halfhitch", "parked", "resume", *its_ids, "--group", its_group]
        words += ["--reason", "it can answer now", "--admin-port", str(stage.admin_port)]
        sys.stdout.write(
            "Put back, while the sidecar runs (it does with halfhitch demo --stay), by:\n"
            f"  {shlex.join(words)}\n"
        )
    sys.stdout.flush()
