"""docs/fastapi.md as it stands there: served by uvicorn, before a sidecar on a real Kafka."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from harness.kafka import create_topics, fresh_name, read_all, values, wait_until
from harness.places import ROOT
from harness.pytest_runs import run_pytest
from harness.sidecar import Sidecar
from harness.snippets import fence_with, replaced

if TYPE_CHECKING:
    from pathlib import Path

    from halfhitch.embedded import EmbeddedKafka

PAGE = "docs/fastapi.md"
UVICORN = (sys.executable, "-m", "uvicorn", "--timeout-graceful-shutdown", "1")
DATABASE = "postgresql+asyncpg://shop@localhost/shop"
#: What a reader's service has besides.
SLOW = """
import asyncio

@app.post("/slow")
async def slow(item: str, block: Annotated[Block, hitch.block]) -> None:
    await order(item, block)
    open("slow", "w").close()
    await asyncio.sleep(60)
"""


def program(folder: Path) -> str:
    with closing(sqlite3.connect(folder / "shop.db")) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE orders (item TEXT)")
        database.commit()
    shown = fence_with(PAGE, "app = FastAPI") + fence_with(PAGE, "idempotency_key")
    return replaced(shown, DATABASE, f"sqlite+aiosqlite:///{folder}/shop.db")


def rows(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / "shop.db", timeout=20)) as database:
        return [row[0] for row in database.execute("SELECT item FROM orders ORDER BY item")]


class Service:
    """uvicorn, with the page's program."""

    def __init__(self, folder: Path, address: str, shown: str) -> None:
        (folder / "shop.py").write_text(shown)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.log = folder / "service.log"
        paths = os.pathsep.join([str(ROOT / "sidecar"), str(folder)])
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*UVICORN, "shop:app", "--port", str(self.port)],
                env={**os.environ, "PYTHONPATH": paths, "HALFHITCH_ADDRESS": address},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.client = httpx2.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=60)
        wait_until(self.is_up, 60, what="uvicorn")

    def is_up(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return "Uvicorn running" in self.log.read_text()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(20)


@pytest.mark.kafka
def test_the_page_s_service_agrees_with_its_topic_whatever_ends_a_request(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic = fresh_name("fastapi")
    create_topics(kafka.bootstrap, {topic: 1})
    shown = replaced(program(tmp_path), '"orders"', f'"{topic}"') + SLOW
    given = {"HALFHITCH_TOPICS_PREFIX": topic + "-", "HALFHITCH_TOPICS_CREATE": "true"}
    with Sidecar(kafka.bootstrap, tmp_path, **given) as sidecar:
        sidecar.wait_ready()
        with Service(tmp_path, sidecar.address, shown) as service:
            assert service.client.post("/orders", params={"item": "book"}).status_code == 200
            key = {"Idempotency-Key": "order-17"}
            answers = [
                service.client.put("/orders", params={"item": "pen"}, headers=key) for _ in range(2)
            ]
            assert [answer.json() for answer in answers] == [{"transaction_id": "order-17"}] * 2

            # uvicorn lets the endpoint go on for a client that has hung up, until it is stopped.
            with pytest.raises(httpx2.ReadTimeout):
                service.client.post("/slow", params={"item": "ink"}, timeout=2)
            assert (tmp_path / "slow").exists()
            service.process.send_signal(signal.SIGTERM)
            service.process.wait(60)
            assert "Application shutdown complete" in service.log.read_text()
            assert rows(tmp_path) == ["book", "pen"], service.log.read_text()

        wait_until(lambda: len(read_all(kafka.bootstrap, topic)) >= 2, 40, what="two messages")
        assert sorted(values(read_all(kafka.bootstrap, topic))) == [b"book", b"pen"]


def test_the_page_s_test_passes(tmp_path: Path) -> None:
    shown = program(tmp_path) + fence_with(PAGE, "halfhitch_coordinator")
    ended = run_pytest(tmp_path, shown, "-p", "pytest_asyncio.plugin", "-o", "asyncio_mode=auto")
    assert "1 passed" in ended.stdout, ended.stdout + ended.stderr
