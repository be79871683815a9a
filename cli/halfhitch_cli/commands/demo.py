"""halfhitch demo: the main job on real servers, disturbed on purpose, with the books at the end."""

import shlex
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from halfhitch_cli.lazy import PlainCommand
from halfhitch_cli.output import say

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

    from halfhitch_cli.demo.figures import Figures
    from halfhitch_cli.demo.stage import Plan, Stage
    from halfhitch_cli.demo.verdict import Verdict
    from halfhitch_cli.demo.watch import Sight, Watch

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_LOOK_EVERY_S = 0.25
_LINE_EVERY_S = 5.0
_SHOPS = 3
#: What became of checks, in words.
_ANSWERS = {
    "commit": "answered: committed",
    "rollback": "answered: rolled back",
    "unknown": "answered: cannot say yet",
    "decided": "decided meanwhile",
    "silent": "asked by the sidecar that was killed, or no answer in time",
    "no_answer": "answered with something else",
    "lost": "lost on the way, sent again",
    "undelivered": "not delivered, sent again",
}


def demo(
    orders: Annotated[int, typer.Option(min=100, max=1_000_000, help="Orders to take.")] = 5_000,
    deaths: Annotated[int, typer.Option(min=0, max=40, help="Shop processes that die.")] = 8,
    seed: Annotated[int, typer.Option(help="Decides which orders fail and who dies.")] = 7,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the folder with all logs.")] = False,
    stay: Annotated[bool, typer.Option("--stay", help="Leave the servers up, to look at.")] = False,
) -> int:
    """Watch the main job: orders in a database, messages on Kafka, sums in Spark.

    Real Kafka, Redis, Spark and SQLite. Some orders roll back, some processes are killed between
    prepare and commit, the sidecar is killed once in the middle. What became of their orders is
    found out by asking; only what a group never can answer ends parked. At the end the books must
    balance: exit code 1 if a message was lost, doubled, invented or is undecided. Takes two to
    three minutes.
    """
    missing = _missing()
    if missing:
        sys.stderr.write(
            f"halfhitch: the demo needs {' and '.join(missing)}: pip install 'halfhitch[demo]'\n"
        )
        return 1
    from halfhitch_cli.demo.stage import Plan

    folder = Path(tempfile.mkdtemp(prefix="halfhitch-demo-"))
    plan = Plan(folder, orders, deaths, _SHOPS, seed)
    verdict = None
    try:
        verdict = _perform(plan, stays=stay)
    finally:
        if verdict is not None and verdict.is_right and not keep:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            say(f"Logs and data of this run: {folder}")
    return 0 if verdict.is_right else 1


def _missing() -> list[str]:
    import importlib.util

    needed = {"pyspark": "PySpark", "sqlalchemy": "SQLAlchemy", "jgo": "jgo"}
    return [name for module, name in needed.items() if importlib.util.find_spec(module) is None]


def _perform(plan: "Plan", *, stays: bool) -> "Verdict":
    from halfhitch.embedded import EmbeddedKafka, EmbeddedRedis, unwind_on_sigterm
    from halfhitch_cli.commands.dev import show_fetch_progress
    from halfhitch_cli.demo.stage import FORGOTTEN_COUNT, Stage, create_topics
    from halfhitch_cli.demo.verdict import judge, read_books
    from halfhitch_cli.demo.watch import Watch

    with ExitStack() as stack:
        stack.enter_context(unwind_on_sigterm())
        say("Starting Kafka, Redis, the sidecar and a Spark stream ...")
        kafka = stack.enter_context(
            EmbeddedKafka(folder=plan.folder / "kafka", on_progress=show_fetch_progress)
        )
        redis = stack.enter_context(EmbeddedRedis(plan.folder / "redis"))
        create_topics(kafka.bootstrap)
        _create_tables(plan)
        stage = Stage(plan, kafka.bootstrap, redis.url)
        stack.callback(stage.stop)
        stage.start_spark()
        stage.start_sidecar()
        stage.await_sidecar()
        watch = Watch(stage)
        watch.start()
        stack.callback(watch.stop)
        say(
            f"{plan.shop_count} shop processes take {plan.order_count} orders (seed {plan.seed}); "
            f"{plan.deaths} times one of them dies in the middle of an order. A fourth process "
            f"prepares {FORGOTTEN_COUNT} messages and never can say what became of them."
        )
        _play(stage, watch)
        figures = stage.figures() or watch.look().figures
        stage.close_shops()
        spark = stage.finish_spark()
        verdict = judge(read_books(plan.database, kafka.bootstrap, spark), FORGOTTEN_COUNT)
        _show(verdict, stage, figures)
        if stays:
            _stay(stage)
    return verdict


def _create_tables(plan: "Plan") -> None:
    from halfhitch_cli.demo.shop import Base, open_database

    database = open_database(plan.database)
    Base.metadata.create_all(database)
    database.dispose()


def _play(stage: "Stage", watch: "Watch") -> None:
    """Until every order was attempted and every transaction has ended."""
    from rich.console import Console
    from rich.live import Live

    console = Console()
    stage.start_shops()
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        display = _Display(console, live, stage.plan.order_count)
        while stage.mind_shops():
            stage.check_alive()
            sight = watch.look()
            if stage.sidecar_deaths == 0 and sight.attempted >= stage.plan.order_count // 2:
                console.print("Killing the sidecar (kill -9) and starting it again.")
                stage.kill_sidecar()
            display.show(sight)
            time.sleep(_LOOK_EVERY_S)
        console.print("All orders attempted. Waiting until nothing is undecided any more ...")
        stage.settle(lambda: display.show(watch.look()))


class _Display:
    """A picture that is drawn anew on a terminal; elsewhere a line now and then."""

    def __init__(self, console: "Console", live: "Live", order_count: int) -> None:
        self._is_terminal = console.is_terminal
        self._live = live
        self._order_count = order_count
        self._line_due_s = 0.0

    def show(self, sight: "Sight") -> None:
        """What there is to be seen now."""
        if self._is_terminal:
            self._live.update(_picture(sight, self._order_count))
        elif time.monotonic() >= self._line_due_s:
            self._line_due_s = time.monotonic() + _LINE_EVERY_S
            say(_line(sight))


def _line(sight: "Sight") -> str:
    figures = sight.figures
    return (
        f"{sight.elapsed_s:5.0f} s  attempted {sight.attempted}, in the database {sight.taken}, "
        f"visible {sight.visible}, in Spark {sight.spark_rows}, shops died {sight.shop_deaths}; "
        f"pending {figures.pending}, due {figures.due}, checks {figures.checks_sent}, "
        f"decided {figures.decided}, parked {figures.given_up}"
    )


def _picture(sight: "Sight", order_count: int) -> Any:
    from rich.progress_bar import ProgressBar
    from rich.table import Table

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


def _show(verdict: "Verdict", stage: "Stage", figures: "Figures") -> None:
    from rich.console import Console
    from rich.table import Table

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
        ),
        (
            ("shop processes killed", stage.shop_deaths),
            ("sidecar killed", stage.sidecar_deaths),
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


def _answers(figures: "Figures") -> "list[tuple[str, int]]":
    """Those that every run has; and others if there were any."""
    always = ("commit", "rollback", "unknown")
    return [(n, figures.answers[n]) for n in _ANSWERS if n in always or figures.answers[n]]


def _show_parked(verdict: "Verdict", stage: "Stage") -> None:
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


def _stay(stage: "Stage") -> None:
    """For those who want to look around."""
    say(
        f"Everything but the shop runs on until Ctrl-C. Kafka: {stage.bootstrap}, "
        f"data door: {stage.address}, admin door: http://127.0.0.1:{stage.admin_port}"
    )
    with suppress(KeyboardInterrupt):
        while True:
            stage.check_alive()
            time.sleep(_LOOK_EVERY_S)


app.command(cls=PlainCommand)(demo)
