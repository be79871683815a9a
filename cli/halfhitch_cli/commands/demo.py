"""halfhitch demo: the main job on real servers, disturbed on purpose, with the books at the end."""

import importlib.util
import shutil
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halfhitch import extras
from halfhitch_cli.lazy import PlainCommand
from halfhitch_cli.output import say

if TYPE_CHECKING:
    from rich.console import Console

    from halfhitch_cli.demo.stage import Plan, Stage
    from halfhitch_cli.demo.verdict import Verdict
    from halfhitch_cli.demo.watch import Watch

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_LOOK_EVERY_S = 0.25
_SHOPS = 3
#: What the shop, the stream and the servers are made of.
_NEEDED = ("confluent_kafka", "pyspark", "sqlalchemy", "jgo")


def demo(
    orders: Annotated[int, typer.Option(min=100, max=1_000_000, help="Orders to take.")] = 5_000,
    deaths: Annotated[
        int, typer.Option(min=0, max=40, help="How many shop processes are killed.")
    ] = 8,
    seed: Annotated[
        int, typer.Option(help="Decides which orders fail and which processes die.")
    ] = 7,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the folder that has all logs.")
    ] = False,
    stay: Annotated[
        bool, typer.Option("--stay", help="Leave the servers up, to look around.")
    ] = False,
) -> int:
    """Watch the main job: orders in a database, messages on Kafka, facts and totals in Spark.

    Real Kafka, Redis, Spark and SQLite. Some orders roll back, some processes are killed between
    prepare and commit, sidecar and Spark are killed once in the middle. What became of their
    orders is found out by asking; only what a group never can answer ends parked. At the end the
    books must balance: exit code 1 if a message was lost, doubled, invented or is undecided. Takes
    three minutes or four.
    """
    if any(importlib.util.find_spec(module) is None for module in _NEEDED):
        raise extras.MissingExtra(extras.sentence("`halfhitch demo`", extras.DEMO))
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


def _perform(plan: "Plan", *, stays: bool) -> "Verdict":
    from halfhitch.embedded import EmbeddedKafka, EmbeddedRedis, unwind_on_sigterm
    from halfhitch_cli.commands.dev import show_fetch_progress
    from halfhitch_cli.demo.show import show_books, show_totals
    from halfhitch_cli.demo.stage import FORGOTTEN_COUNT, Stage, create_topics
    from halfhitch_cli.demo.verdict import judge, read_books
    from halfhitch_cli.demo.watch import Watch

    with ExitStack() as stack:
        stack.enter_context(unwind_on_sigterm())
        say("Starting Kafka, Redis, the sidecar and two Spark streams ...")
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
        show_totals(spark["totals"], stage)
        show_books(verdict, stage, figures)
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

    from halfhitch_cli.demo.show import Display

    console = Console()
    stage.start_shops()
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        display = Display(console, live, stage.plan.order_count)
        while stage.mind_shops():
            stage.check_alive()
            sight = watch.look()
            if stage.sidecar_deaths == 0 and sight.attempted >= stage.plan.order_count // 2:
                console.print("Killing the sidecar (kill -9) and starting it again.")
                stage.kill_sidecar()
            _disturb_spark(stage, console, sight.attempted)
            display.show(sight)
            time.sleep(_LOOK_EVERY_S)
        console.print("All orders attempted. Waiting until nothing is undecided any more ...")

        def meanwhile() -> None:
            sight = watch.look()
            _disturb_spark(stage, console, sight.attempted)
            display.show(sight)

        stage.settle(meanwhile)


def _disturb_spark(stage: "Stage", console: "Console", attempted: int) -> None:
    """Once, when there is something to go on from."""
    is_half = attempted >= stage.plan.order_count // 2
    if stage.spark_deaths == 0 and is_half and stage.spark_has_facts():
        console.print("Killing Spark (kill -9) and starting it again from its checkpoints.")
        stage.kill_spark()


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
