"""The demo's servers and processes: the sidecar, the shop, the forgetful group, Spark's streams.

Everything is real and runs as a process of its own. The shop's processes die by themselves and are
started again here; sidecar and Spark are killed once, in the middle, and started again. Shop and
forgetful group stay when their work is done, to be asked what became of their transactions.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.request import urlopen

from halfhitch.errors import HalfHitchError
from halfhitch_cli.demo.figures import Figures, read_figures
from halfhitch_cli.demo.shop import ORDERS, POINTS
from halfhitch_cli.output import say

HALF_PARTITIONS: Final = 2
TOPIC_PARTITIONS: Final = 3
#: Of the forgetful group.
FORGOTTEN_COUNT: Final = 3
_READY_S: Final = 60.0
_SETTLE_S: Final = 120.0
#: Spark starts for the second time, and takes all that came meanwhile: so long without a sign.
_CATCH_UP_S: Final = 600.0
#: A person who looks at a silent terminal thinks that nothing goes on.
_TELL_S: Final = 10.0
_STOP_S: Final = 20.0
#: Short, for a demo should not take long; and so often that a busy SQLite is no reason to give up.
_CHECKS: Final = {
    "HALFHITCH_CHECKS_IMMUNITY_S": "2",
    "HALFHITCH_CHECKS_INTERVAL_S": "1.5",
    "HALFHITCH_CHECKS_COUNT_MAX": "5",
}


class DemoError(HalfHitchError):
    """The demo could not be carried through; where to look is in the message."""

    code = "demo_failed"


@dataclass(slots=True)
class Plan:
    """How much of everything."""

    folder: Path
    order_count: int
    deaths: int
    shop_count: int
    seed: int

    @property
    def database(self) -> Path:
        """The shop's SQLite file."""
        return self.folder / "shop.sqlite"


@dataclass(slots=True)
class Stage:
    """What runs. `bootstrap` is Kafka's address."""

    plan: Plan
    bootstrap: str
    redis_url: str
    sidecar: "subprocess.Popen[bytes] | None" = None
    spark: "subprocess.Popen[bytes] | None" = None
    forgetful: "subprocess.Popen[bytes] | None" = None
    shops: "list[subprocess.Popen[bytes]]" = field(default_factory=list)
    shop_deaths: int = 0
    sidecar_deaths: int = 0
    spark_deaths: int = 0
    admin_port: int = 0
    former: Figures = field(default_factory=Figures)  # of sidecars that are no more

    # -- the sidecar -----------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """Where the shop finds the sidecar; a socket path must stay short."""
        return f"unix:{self.plan.folder / 'hh.sock'}"

    def start_sidecar(self) -> None:
        """Start it."""
        self.admin_port = self.admin_port or _free_port()
        environment = {
            **_plain_environment(),
            **_CHECKS,
            "HALFHITCH_KAFKA_BOOTSTRAP": self.bootstrap,
            "HALFHITCH_REDIS_URL": self.redis_url,
            "HALFHITCH_HANDLE_KEY": "known-to-all-for-it-is-only-a-demo",
            "HALFHITCH_HTTP_PORT": "0",
            "HALFHITCH_HTTP_SOCKET": str(self.plan.folder / "hh.sock"),
            "HALFHITCH_ADMIN_PORT": str(self.admin_port),
            "HALFHITCH_INSTANCE_ID": "demo",
            "HALFHITCH_OWNER_SESSION_TIMEOUT_MS": "6000",
            "HALFHITCH_LOG_LEVEL": "warning",
        }
        self.sidecar = self._start("sidecar", ["halfhitch_cli", "serve"], environment)

    def await_sidecar(self) -> None:
        """Wait until it is ready for prepares."""
        self._await(lambda: self._answer("/readyz") is not None, "sidecar")

    def kill_sidecar(self) -> None:
        """kill -9, and start it again."""
        assert self.sidecar is not None
        self.former = self.figures() or self.former
        self.sidecar.kill()
        self.sidecar.wait()
        self.sidecar_deaths += 1
        self.start_sidecar()

    def figures(self) -> Figures | None:
        """What it has counted, its former lives included; None when it does not answer."""
        found = self._answer("/metrics")
        return None if found is None else read_figures(found).after(self.former)

    def unfinished_count(self) -> int | None:
        """Transactions that have not ended; None while that is not known."""
        found = self._answer("/v1/status")
        partitions = json.loads(found)["partitions"] if found else []
        if len(partitions) < HALF_PARTITIONS or any(p["phase"] != "working" for p in partitions):
            return None
        counts = ("pending_count", "decided_count", "early_count")
        return sum(int(partition[count]) for partition in partitions for count in counts)

    def settle(self, meanwhile: Callable[[], None]) -> None:
        """Wait until every transaction has ended, one way or another."""

        def is_settled() -> bool:
            meanwhile()
            return self.unfinished_count() == 0

        self._await(is_settled, "sidecar", "end all transactions", _SETTLE_S)

    def _answer(self, path: str) -> str | None:
        try:
            with urlopen(f"http://127.0.0.1:{self.admin_port}{path}", timeout=2.0) as response:
                answer: bytes = response.read()
                return answer.decode()
        except (URLError, OSError, ValueError):
            return None

    # -- those who send messages -----------------------------------------------------------------

    def start_shops(self) -> None:
        """All of them, and the forgetful group."""
        words = ["--address", self.address, "--count", str(FORGOTTEN_COUNT)]
        words += ["--stop-file", str(self._closing)]
        self.forgetful = self._start(
            "forgetful", ["halfhitch_cli.demo.forgetful", *words], _plain_environment()
        )
        self.shops = [self._start_shop(share) for share in range(self.plan.shop_count)]

    def mind_shops(self) -> bool:
        """Start again what has died; False when every order was attempted."""
        for share, shop in enumerate(self.shops):
            code = shop.poll()
            if code is not None and code >= 0:
                raise DemoError(f"the shop failed; see {self.plan.folder / f'shop-{share}.log'}")
            if code is not None:
                self.shop_deaths += 1
                self.shops[share] = self._start_shop(share)
        return not all(self._done_file(share).exists() for share in range(len(self.shops)))

    def close_shops(self) -> None:
        """Nobody is going to be asked any more: let all of them end."""
        assert self.forgetful is not None
        self._closing.touch()
        processes = {"forgetful": self.forgetful}
        processes |= {f"shop-{share}": shop for share, shop in enumerate(self.shops)}
        for name, process in processes.items():
            try:
                code = process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                code = None
            if code != 0:
                what = "failed" if code else f"did not end within {_STOP_S:g} s"
                raise DemoError(f"{name} {what}; see {self.plan.folder / f'{name}.log'}")

    @property
    def _closing(self) -> Path:
        return self.plan.folder / "closing"

    def _done_file(self, share: int) -> Path:
        return self.plan.folder / f"shop-{share}.done"

    def _start_shop(self, share: int) -> "subprocess.Popen[bytes]":
        plan = self.plan
        arguments = {
            "--database": plan.database,
            "--address": self.address,
            "--share": f"{share}/{plan.shop_count}",
            "--orders": plan.order_count,
            "--deaths": plan.deaths,
            "--seed": plan.seed,
            "--done-file": self._done_file(share),
            "--stop-file": self._closing,
        }
        words = [str(word) for pair in arguments.items() for word in pair]
        return self._start(
            f"shop-{share}", ["halfhitch_cli.demo.shop", *words], _plain_environment()
        )

    # -- Spark -----------------------------------------------------------------------------------

    @property
    def spark_folder(self) -> Path:
        """Where Spark's checkpoints and tables are."""
        return self.plan.folder / "spark"

    def start_spark(self) -> None:
        """The streams that sum points, and make facts and totals, while the orders come in."""
        require_spark()
        from halfhitch.embedded import spark_connector_jars, spark_java_home

        jars = ",".join(str(jar) for jar in spark_connector_jars())
        words = ["halfhitch_spark.demo", "--bootstrap", self.bootstrap]
        words += ["--orders", ORDERS, "--points", POINTS, "--folder", str(self.spark_folder)]
        words += ["--stop-file", str(self.plan.folder / "stop"), "--jars", jars]
        words += ["--java-home", str(spark_java_home())]
        self.spark = self._start("spark", words, _plain_environment())

    def kill_spark(self) -> None:
        """kill -9, its Java process too, and start it again: it goes on from its checkpoints."""
        assert self.spark is not None
        os.killpg(self.spark.pid, signal.SIGKILL)
        self.spark.wait()
        self.spark_deaths += 1
        self.start_spark()

    def spark_has_facts(self) -> bool:
        """Whether a batch of the table of facts was taken: there is a checkpoint to go on from."""
        return any((self.spark_folder / "facts" / "manifest").glob("*.json"))

    def spark_points(self) -> dict[str, Any]:
        """What the stream shows now; empty before its first batch."""
        try:
            found: dict[str, Any] = json.loads((self.spark_folder / "points.json").read_text())
        except FileNotFoundError:
            return {}
        return found

    def finish_spark(self) -> dict[str, Any]:
        """Let it catch up and end. It is killed once before, if it was not yet."""
        assert self.spark is not None
        if self.spark_deaths == 0:
            self._await_spark(self.spark_has_facts, "make facts")
            self.kill_spark()
        (self.plan.folder / "stop").touch()
        self._await_spark(lambda: self.spark is None or self.spark.poll() is not None, "end")
        self.check_alive()  # a dead Spark is no loss of messages
        totals = json.loads((self.spark_folder / "totals.json").read_text())
        return {**self.spark_points(), "totals": totals}

    # -- all -------------------------------------------------------------------------------------

    def check_alive(self) -> None:
        """Raise DemoError when something died that should not have."""
        for name in ("sidecar", "spark", "forgetful"):
            process = getattr(self, name)
            if process is not None and process.poll() not in (None, 0):
                raise DemoError(f"{name} has died; see {self.plan.folder / f'{name}.log'}")

    def stop(self) -> None:
        """End whatever still runs."""
        started = (*self.shops, self.forgetful, self.spark, self.sidecar)
        running = [process for process in started if process is not None]
        for process in running:
            process.terminate()
        for process in running:
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(
        self, name: str, words: list[str], environment: dict[str, str]
    ) -> "subprocess.Popen[bytes]":
        with (self.plan.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                # Ctrl-C reaches the demo alone, which then stops the others in order.
                start_new_session=True,
            )

    def _await(
        self,
        is_so: Callable[[], bool],
        name: str,
        what: str = "become ready",
        within_s: float = _READY_S,
    ) -> None:
        give_up_s = time.monotonic() + within_s
        while not is_so():
            self.check_alive()
            if time.monotonic() > give_up_s:
                raise DemoError(
                    f"{name} did not {what} within {within_s:g} s; "
                    f"see {self.plan.folder / f'{name}.log'}"
                )
            time.sleep(0.1)

    def _await_spark(self, is_so: Callable[[], bool], what: str) -> None:
        """However long it takes, while its sums grow."""
        seen, tell_s = self.spark_points(), time.monotonic() + _TELL_S
        give_up_s = time.monotonic() + _CATCH_UP_S
        while not is_so():
            self.check_alive()
            now_s, points = time.monotonic(), self.spark_points()
            if points != seen:
                seen, give_up_s = points, now_s + _CATCH_UP_S
            if now_s > give_up_s:
                raise DemoError(
                    f"spark did not {what}, and summed nothing for {_CATCH_UP_S:g} s; see "
                    f"{self.plan.folder / 'spark.log'}. On a busy machine: halfhitch demo "
                    "--orders 500"
                )
            if now_s > tell_s:
                tell_s = now_s + _TELL_S
                say(f"Waiting for Spark, which has summed {seen.get('rows', 0)} messages ...")
            time.sleep(0.1)


def require_spark() -> None:
    """Raises DemoError for a Spark that the connector was not made for."""
    from halfhitch.embedded.jars import SPARK_VERSION

    found = version("pyspark")
    if found != SPARK_VERSION:
        raise DemoError(
            f"the demo needs pyspark {SPARK_VERSION}, and pyspark {found} is installed: "
            f"pip install 'pyspark=={SPARK_VERSION}'"
        )


def create_topics(bootstrap: str) -> None:
    """The shop's two topics, and the internal ones."""
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    from halfhitch.adapters.kafka.topics import ensure
    from halfhitch.wire.topics import InternalTopics

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    topics = [NewTopic(name, TOPIC_PARTITIONS, 1) for name in (ORDERS, POINTS)]
    for future in admin.create_topics(topics, operation_timeout=30.0).values():
        future.result(30.0)
    ensure(admin, InternalTopics(), partition_count=HALF_PARTITIONS, replication_factor=1)


def _plain_environment() -> dict[str, str]:
    """Ours, without settings that are meant for another sidecar."""
    keep = ("HALFHITCH_CACHE_DIR",)
    return {k: v for k, v in os.environ.items() if not k.startswith("HALFHITCH_") or k in keep}


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
