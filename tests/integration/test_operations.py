"""What operators do to a running coordinator: decided by hand, given up, put back, decided late."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.adapters.kafka import half_search
from halfhitch.core.model import Resolution
from halfhitch.engine import Engine
from halfhitch.errors import ContraryDecision, TransactionNotFound, TransactionParked
from halfhitch.observability.metrics import Metrics
from halfhitch.service.api import Filter, OutgoingMessage, PartitionPhase
from harness.defaults import check_rules, engine_options, owner_limits
from harness.kafka import create_topics, fresh_name, read_all

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from halfhitch.adapters.kafka.log_ends import Log

pytestmark = pytest.mark.kafka

DEADLINE_S = 30.0
C, R = Resolution.COMMIT, Resolution.ROLLBACK
ORDER = {"reason": "asked the shop", "operator": "ann"}


class Running:
    """An engine, operations over it, and a topic."""

    def __init__(self, engine: Engine, topic: str, bootstrap: str) -> None:
        self.engine, self.topic, self.bootstrap = engine, topic, bootstrap
        self.operations = engine.operations

    async def prepare(self, name: str, *values: bytes) -> str:
        messages = [OutgoingMessage(self.topic, b"k", value, [("a", None)]) for value in values]
        prepared = await self.engine.transactions.prepare(
            producer_group="shop", transaction_id=name, messages=messages
        )
        return prepared.handle

    async def undecided(self) -> list[str]:
        page = await self.operations.undecided(Filter())
        return sorted(t.transaction_id for t in page.transactions)

    async def parked(self) -> dict[str, str | None]:
        page = await self.operations.parked(Filter())
        return {t.transaction_id: t.decision for t in page.transactions}

    def forwarded(self) -> list[bytes | None]:
        return [record.value for record in read_all(self.bootstrap, self.topic)]


@asynccontextmanager
async def running(
    bootstrap: str, topic: str, prefix: str, *, age_ms_max: int = 3_600_000, owner: bool = True
) -> AsyncIterator[Running]:
    engine = Engine(
        engine_options(
            bootstrap=bootstrap, handle_keys=(b"k" * 32,), topic_prefix=prefix, partition_count=2,
            create_topics=True, owner_enabled=owner,
            owner_limits=owner_limits(check_rules=check_rules(age_ms_max=age_ms_max)),
        ),
        Metrics(),
    )  # fmt: skip
    await engine.start()
    try:
        wanted = [PartitionPhase.WORKING] * 2 if owner else []
        await until(
            lambda: (
                [p.phase for p in engine.partitions()] == wanted and not engine.unready_reasons()
            )
        )
        yield Running(engine, topic, bootstrap)
    finally:
        await engine.stop()


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            found = condition()
            if found if not asyncio.iscoroutine(found) else await found:
                return
            await asyncio.sleep(0.05)


@pytest.fixture
def place(kafka: Any) -> tuple[str, str, str]:
    topic = fresh_name("orders")
    create_topics(kafka.bootstrap, {topic: 1})
    return kafka.bootstrap, topic, fresh_name("ops") + "."


async def test_an_operator_decides_what_nobody_else_does(place: tuple[str, str, str]) -> None:
    async with running(*place) as here:
        for number in range(4):
            await here.prepare(f"T{number}", b"a%d" % number, b"b%d" % number)

        async def all_seen() -> bool:
            return len(await here.undecided()) == 4

        await until(all_seen)
        await here.operations.decide("shop", "T0", C, **ORDER)
        await here.operations.decide("shop", "T1", R, **ORDER)
        with pytest.raises(ContraryDecision):
            await here.operations.decide("shop", "T1", C, **ORDER)
        await here.operations.decide("shop", "T1", R, **ORDER)
        with pytest.raises(TransactionNotFound):
            await here.operations.decide("shop", "T9", C, **ORDER)
        # From an instance that owns nothing, and without Redis to ask.
        async with running(*place, owner=False) as elsewhere:
            page = await elsewhere.operations.undecided(Filter())
            assert (page.transactions, page.missing_partitions) == ([], [0, 1])
            await elsewhere.operations.decide("shop", "T2", C, **ORDER)
            with pytest.raises(ContraryDecision):
                await elsewhere.operations.decide("shop", "T2", R, **ORDER)
            with pytest.raises(TransactionNotFound):
                await elsewhere.operations.decide("shop", "T9", C, **ORDER)

        async def rest() -> bool:
            return await here.undecided() == ["T3"]

        await until(rest)
        await until(lambda: len(here.forwarded()) == 4)
        assert sorted(v or b"" for v in here.forwarded()) == [b"a0", b"a2", b"b0", b"b2"]


async def test_hundreds_of_another_instance_were_decided_one_by_one(
    place: tuple[str, str, str],
) -> None:
    """Each by a reading of all logs of its own: no answer came in time."""
    names: list[Any] = [("shop", f"T{number}") for number in range(300)]
    async with running(*place) as here:
        await asyncio.gather(*(here.prepare(name, name.encode()) for _, name in names))
        async with running(*place, owner=False) as elsewhere, asyncio.timeout(DEADLINE_S):
            ops = elsewhere.operations
            assert await ops.decide_many(names[:100], C, **ORDER) == ["committed"] * 100
            outcomes = await ops.decide_many([*names, ("shop", "T999")], R, **ORDER)
        # Of what is done, the half log is trimmed meanwhile, or not yet.
        assert all(isinstance(o, ContraryDecision | TransactionNotFound) for o in outcomes[:100])
        assert outcomes[100:300] == ["rolled_back"] * 200
        assert isinstance(outcomes[300], TransactionNotFound)

        async def all_ended() -> bool:
            return not await here.undecided()

        await until(all_ended)
        await until(lambda: len(here.forwarded()) == 100)
        assert sorted(v or b"" for v in here.forwarded()) == sorted(
            name.encode() for _, name in names[:100]
        )


async def test_each_request_about_hundreds_of_another_instance_read_the_logs_anew(
    place: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What 20,000 took grew with the square of their number."""
    read: Counter[str] = Counter()

    def counted(module: Any) -> None:
        records = module.records

        def counting(consumer: Any, log: Log, *more: Any, **options: Any) -> Iterator[Any]:
            for record in records(consumer, log, *more, **options):
                read[module.__name__] += 1
                yield record

        monkeypatch.setattr(module, "records", counting)

    counted(half_search)
    names: list[Any] = [("shop", f"T{number}") for number in range(500)]
    async with running(*place) as here, running(*place, owner=False) as elsewhere:
        await asyncio.gather(*(here.prepare(name, name.encode()) for _, name in names))
        outcomes = await asyncio.gather(
            *(
                elsewhere.operations.decide_many(names[begin : begin + 100], R, **ORDER)
                for begin in range(0, 500, 100)
            )
        )
    assert outcomes == [["rolled_back"] * 100] * 5
    assert read[half_search.__name__] <= 500, "each message once"


async def test_what_was_given_up_is_put_back_and_a_late_decision_goes_along(
    place: tuple[str, str, str],
) -> None:
    async with running(*place, age_ms_max=1_500) as here:
        handles = {name: await here.prepare(name, name.encode()) for name in ("T0", "T1", "T2")}

        async def all_parked() -> bool:
            return len(await here.parked()) == 3

        await until(all_parked)
        with pytest.raises(TransactionParked):
            await here.operations.decide("shop", "T0", C, **ORDER)
        for name, resolution in (("T0", C), ("T1", R)):
            with pytest.raises(TransactionParked):
                await here.engine.transactions.end(handles[name], resolution)

        async def noted() -> bool:
            return await here.parked() == {"T0": "commit", "T1": "rollback", "T2": None}

        await until(noted)
    async with running(*place) as here:  # another instance, and age is no matter any more
        for name in ("T0", "T1", "T2"):
            await here.operations.resume("shop", name, **ORDER)
            with pytest.raises(TransactionNotFound):
                await here.operations.resume("shop", name, **ORDER)

        async def pending_again() -> bool:
            return await here.undecided() == ["T2"]

        await until(pending_again)
        await until(lambda: here.forwarded() == [b"T0"])
        [shown] = (await here.operations.undecided(Filter())).transactions
        assert (shown.check_count, shown.age_s < 30) == (0, True)
        await here.operations.decide("shop", "T2", C, **ORDER)
        await until(lambda: here.forwarded() == [b"T0", b"T2"])
        assert await here.parked() == {}
