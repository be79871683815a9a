"""A record in another database than the barrier's was committed there, and fenced here."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from halfhitch.barrier import AsyncBarrier, Barrier
from halfhitch.barrier.sql_same_database import _server_of
from halfhitch.client import LocalTransactionState
from halfhitch.errors import InvalidRequest
from harness.barriers import GROUP, RecordingProducer, asked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy.engine import Engine

COMMIT, ROLLBACK = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[dict[str, Engine]]:
    """Of two files; `alias` is the first one by another name."""
    (tmp_path / "alias.db").symlink_to(tmp_path / "shop.db")
    made = {name: create_engine(f"sqlite:///{tmp_path}/{name}.db") for name in ("shop", "other")}
    for engine in made.values():
        Barrier(engine, GROUP).create()
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE shop_orders (id VARCHAR(64) PRIMARY KEY)")
    made["alias"] = create_engine(f"sqlite:///{tmp_path}/alias.db")
    made["options"] = made["shop"].execution_options(isolation_level="SERIALIZABLE")
    yield made
    for engine in made.values():
        engine.dispose()


def work_in(session: Session) -> Session:
    """One row of the shop's."""
    session.execute(text("INSERT INTO shop_orders (id) VALUES ('a')"))
    return session


def orders(engine: Engine) -> int:
    """What has been committed."""
    with engine.connect() as connection:
        counted = connection.exec_driver_sql("SELECT count(*) FROM shop_orders")
        return int(counted.scalar_one())


def test_a_session_or_record_of_another_file_is_refused(engines: dict[str, Engine]) -> None:
    barrier = Barrier(engines["shop"], GROUP)
    producer = RecordingProducer("a")
    with Session(engines["other"]) as session:
        block = barrier.transaction(producer, session=session)
        with pytest.raises(InvalidRequest, match="works in another database"), block:
            pass
        with pytest.raises(InvalidRequest, match=r"other\.db.*shop\.db"):
            barrier.record(session, "b")
        session.commit()
    assert producer.made[0].ends == ["rollback"]
    with engines["other"].connect() as connection:
        rows = connection.exec_driver_sql("SELECT count(*) FROM halfhitch_barrier").scalar_one()
        assert rows == 0


def test_rows_stood_in_another_file_of_what_the_check_said_was_rolled_back(
    engines: dict[str, Engine],
) -> None:
    """The program ended behind its local commit: the check alone decides over the messages."""
    barrier = Barrier(engines["shop"], GROUP)
    with Session(engines["other"]) as session, suppress(InvalidRequest):
        barrier.record(work_in(session), "a")
        session.commit()
    assert (barrier.check(asked("a")), orders(engines["other"])) == (ROLLBACK, 0)
    with Session(engines["shop"]) as session:
        barrier.record(work_in(session), "b")
        session.commit()
    assert (barrier.check(asked("b")), orders(engines["shop"])) == (COMMIT, 1)


async def test_asyncio_s_session_of_another_file_is_refused(engines: dict[str, Engine]) -> None:
    shop, other = (
        create_async_engine(engines[name].url.set(drivername="sqlite+aiosqlite"))
        for name in ("shop", "other")
    )
    barrier, producer = AsyncBarrier(shop, GROUP), RecordingProducer("a")
    given: Any = producer
    async with AsyncSession(other) as session:
        block = barrier.transaction(given, session=session)
        with pytest.raises(InvalidRequest, match=r"other\.db.*shop\.db"):
            async with block:
                await session.run_sync(work_in)
    answer = await barrier.check(asked("a"))
    for engine in (shop, other):
        await engine.dispose()
    assert producer.made[0].ends == ["rollback"]
    assert (answer, orders(engines["other"])) == (ROLLBACK, 0)


@pytest.mark.parametrize("name", ["shop", "alias", "options"])
def test_another_engine_or_name_of_the_same_file_is_fine(
    engines: dict[str, Engine], name: str
) -> None:
    producer = RecordingProducer("a")
    barrier = Barrier(engines["shop"], GROUP)
    with Session(engines[name]) as session, barrier.transaction(producer, session=session):
        pass
    assert producer.made[0].ends == ["commit"]


class Told:
    """What a server of MariaDB's says of itself."""

    def __init__(self, variables: dict[str, str], cluster: str = "") -> None:
        self._answers: dict[str, Any] = {
            "SHOW VAR": list(variables.items()),
            "SHOW STA": [("wsrep_cluster_state_uuid", cluster)] if cluster else [],
        }

    def exec_driver_sql(self, statement: str) -> Any:
        if statement == "SELECT DATABASE()":
            return self
        return self._answers[statement[:8]]

    def scalar(self) -> str:
        return "shop"


def test_servers_of_one_cluster_are_one_database() -> None:
    def of(host: str, cluster: str = "", group: str = "", table: str = "barrier") -> Any:
        variables = {"hostname": host, "port": "3306", "group_replication_group_name": group}
        told: Any = Told(variables, cluster)
        return _server_of(told, table)

    assert of("a") == of("a") != of("b")
    assert of("a", cluster="galera") == of("b", cluster="galera") != of("b", cluster="another")
    assert of("a", group="group") == of("b", group="group") != of("b")
    assert of("a")[-1] == "shop"
    assert of("a", table="shop.barrier")[-1] == "None"
