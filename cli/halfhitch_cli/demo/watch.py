"""What can be seen while the demo runs: in the database, on the topic, by Spark, by the sidecar."""

import sqlite3
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Final

from halfhitch_cli.demo.figures import Figures
from halfhitch_cli.demo.shop import ORDERS
from halfhitch_cli.demo.stage import Stage

#: The sidecar has better things to do than to write all its metrics down.
_FIGURES_EVERY_S: Final = 1.0


@dataclass(slots=True)
class Sight:
    """One look."""

    attempted: int = 0
    taken: int = 0
    visible: int = 0
    spark_rows: int = 0
    shop_deaths: int = 0
    sidecar_deaths: int = 0
    elapsed_s: float = 0.0
    figures: Figures = field(default_factory=Figures)


class Watch:
    """Counts visible orders on a thread of its own, as any consumer would; looks at the rest."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._began_s = time.monotonic()
        self._visible = 0
        self._figures = Figures()
        self._figures_due_s = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._count, daemon=True)

    def start(self) -> None:
        """Begin counting."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._thread.join()

    def look(self) -> Sight:
        """Now."""
        stage = self._stage
        attempted, taken = _database_counts(str(stage.plan.database))
        if time.monotonic() >= self._figures_due_s:
            self._figures = stage.figures() or self._figures
            self._figures_due_s = time.monotonic() + _FIGURES_EVERY_S
        return Sight(
            attempted=attempted,
            taken=taken,
            visible=self._visible,
            spark_rows=int(stage.spark_points().get("rows", 0)),
            shop_deaths=stage.shop_deaths,
            sidecar_deaths=stage.sidecar_deaths,
            elapsed_s=time.monotonic() - self._began_s,
            figures=self._figures,
        )

    def _count(self) -> None:
        from confluent_kafka import Consumer

        consumer: Any = Consumer(
            {
                "bootstrap.servers": self._stage.bootstrap,
                "group.id": "halfhitch-demo-watch",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "log_level": 3,
            }
        )
        consumer.subscribe([ORDERS])
        while not self._stopping.is_set():
            for message in consumer.consume(500, 0.2):
                self._visible += message.error() is None
        consumer.close()


def _database_counts(path: str) -> tuple[int, int]:
    try:
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=1.0)
    except sqlite3.OperationalError:
        return 0, 0
    try:
        attempted = connection.execute("select count(*) from attempts").fetchone()[0]
        taken = connection.execute("select count(*) from orders").fetchone()[0]
    except sqlite3.OperationalError:  # no tables yet, or busy: the next look will tell
        return 0, 0
    finally:
        connection.close()
    return int(attempted), int(taken)
