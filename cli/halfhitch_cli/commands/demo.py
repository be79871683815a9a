"""halfhitch demo: the main job on real servers, disturbed on purpose, with the books at the end."""

import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from halfhitch_cli.lazy import PlainCommand
from halfhitch_cli.output import say

if TYPE_CHECKING:
    from halfhitch_cli.demo.stage import Plan, Stage
    from halfhitch_cli.demo.verdict import Verdict
    from halfhitch_cli.demo.watch import Sight, Watch

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_LOOK_EVERY_S = 0.25
_LINE_EVERY_S = 5.0
_SHOPS = 3


def demo(
    orders: Annotated[int, typer.Option(min=100, max=1_000_000, help="Orders to take.")] = 5_000,
    deaths: Annotated[int, typer.Option(min=0, max=40, help="Shop processes that die.")] = 8,
    seed: Annotated[int, typer.Option(help="Decides which orders fail and who dies.")] = 7,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the folder with all logs.")] = False,
) -> int:
    """Watch the main job: orders in a database, messages on Kafka, sums in Spark.

    Real Kafka, real Spark, SQLite. Some orders roll back, some processes are killed between prepare
    and commit, the sidecar is killed once in the middle. At the end the books must balance: exit
    code 1 if a message was lost, doubled or invented. Takes two to three minutes.
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
        verdict = _perform(plan)
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


def _perform(plan: "Plan") -> "Verdict":
    from halfhitch.embedded import EmbeddedKafka, unwind_on_sigterm
    from halfhitch_cli.commands.dev import show_fetch_progress
    from halfhitch_cli.demo.stage import Stage, create_topics
    from halfhitch_cli.demo.verdict import judge, read_books
    from halfhitch_cli.demo.watch import Watch

    with ExitStack() as stack:
        stack.enter_context(unwind_on_sigterm())
        say("Starting Kafka, the sidecar and a Spark stream ...")
        kafka = stack.enter_context(
            EmbeddedKafka(folder=plan.folder / "kafka", on_progress=show_fetch_progress)
        )
        create_topics(kafka.bootstrap)
        _create_tables(plan)
        stage = Stage(plan, kafka.bootstrap)
        stack.callback(stage.stop)
        stage.start_spark()
        stage.start_sidecar()
        stage.await_sidecar()
        watch = Watch(stage)
        watch.start()
        stack.callback(watch.stop)
        say(
            f"{plan.shop_count} shop processes take {plan.order_count} orders (seed {plan.seed}); "
            f"{plan.deaths} times one of them dies in the middle of an order."
        )
        _take_orders(stage, watch)
        say("All orders attempted. Waiting for the coordinator and Spark to catch up ...")
        stage.settle()
        spark = stage.finish_spark()
        verdict = judge(read_books(plan.database, kafka.bootstrap, spark))
        _show(verdict, stage)
    return verdict


def _create_tables(plan: "Plan") -> None:
    from halfhitch_cli.demo.shop import Base, open_database

    database = open_database(plan.database)
    Base.metadata.create_all(database)
    database.dispose()


def _take_orders(stage: "Stage", watch: "Watch") -> None:
    """Until every order was attempted; the sidecar is killed at half time."""
    from rich.console import Console
    from rich.live import Live

    console = Console()
    stage.start_shops()
    line_due_s = 0.0
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        while stage.mind_shops():
            stage.check_alive()
            sight = watch.look()
            if stage.sidecar_deaths == 0 and sight.attempted >= stage.plan.order_count // 2:
                console.print("Killing the sidecar (kill -9) and starting it again.")
                stage.kill_sidecar()
            if console.is_terminal:
                live.update(_picture(sight, stage.plan.order_count))
            elif time.monotonic() >= line_due_s:
                line_due_s = time.monotonic() + _LINE_EVERY_S
                say(_line(sight))
            time.sleep(_LOOK_EVERY_S)


def _line(sight: "Sight") -> str:
    return (
        f"{sight.elapsed_s:5.0f} s  attempted {sight.attempted}, in the database {sight.taken}, "
        f"visible {sight.visible}, in Spark {sight.spark_rows}, shops died {sight.shop_deaths}"
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
    table.add_row("shops died", "", str(sight.shop_deaths))
    table.add_row("sidecar died", "", str(sight.sidecar_deaths))
    return table


def _show(verdict: "Verdict", stage: "Stage") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="The books", show_header=False)
    rows = (
        ("orders in the database", verdict.taken),
        ("attempts without an order (rolled back, died)", verdict.rolled_back_or_lost_attempts),
        ("messages visible on orders", verdict.visible_orders),
        ("messages visible on points", verdict.visible_points),
        ("messages summed by Spark", verdict.spark_rows),
        ("points in the database, decided orders", verdict.points_in_database),
        ("points in Spark", verdict.points_in_spark),
        ("shop processes killed", stage.shop_deaths),
        ("sidecar killed", stage.sidecar_deaths),
    )
    for name, count in rows:
        table.add_row(name, f"{count:,}")
    table.add_section()
    for name, count in (
        ("lost", verdict.lost),
        ("doubled", verdict.doubled),
        ("invented", verdict.invented),
    ):
        table.add_row(name, f"[{'green' if count == 0 else 'bold red'}]{count}[/]")
    table.add_row("undecided (the shop died before it could tell)", str(verdict.undecided))
    console = Console()
    console.print(table)
    if verdict.is_right:
        console.print(
            "The books balance. Next: [bold]halfhitch dev[/] runs Kafka and a sidecar here for "
            "your own program; README.md shows the first lines of it."
        )
    else:
        console.print("[bold red]The books do not balance.[/] Please report it, with the seed.")


app.command(cls=PlainCommand)(demo)
