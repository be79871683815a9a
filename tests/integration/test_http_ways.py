"""The data door on a real Kafka, by both ways: interpreted, and over sockets that are lent."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.core.partitioning import half_partition
from halfhitch.service.api import TransactionState
from halfhitch.service.transactions.remembered import Remembered
from halfhitch.wire.digest import digest_of
from halfhitch.wire.half import digest_in
from harness.check_site import Link
from harness.check_witness import SILENT, Witness
from harness.defaults import check_rules, owner_limits
from harness.engines import GROUP, Site, until, until_idle, until_working
from harness.http_ways import Served, end, half, name_and_handle, served
from harness.native import needs_native
from harness.raw_http import Answer, Client, json_post, request

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from random import Random

pytestmark = pytest.mark.kafka
PENDING = TransactionState.PENDING


@pytest.fixture
def site(kafka: Any) -> Site:
    made = Site(kafka.bootstrap)
    made.create_targets()
    return made


@pytest.fixture(params=["interpreted", pytest.param("native", marks=needs_native)])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["tcp", "unix"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    return str(tmp_path / "door.sock") if request.param == "unix" else None


def prepare(topic: str, body: bytes, *headers: tuple[str, str]) -> bytes:
    """The same as JSON."""
    given = {name.lower(): value for name, value in headers}
    users = {
        name.removeprefix("Half-Header-"): value
        for name, value in headers
        if name.startswith("Half-Header-")
    }
    message = {"topic": topic, "value": body.decode(), "headers": users}
    if "half-key" in given:
        message["key"] = given["half-key"]
    found = {"producer_group": GROUP, "messages": [message]}
    if "half-transaction-id" in given:
        found["transaction_id"] = given["half-transaction-id"]
    return json_post("/v1/transactions", found)


async def take_back(at: Served, rng: Random) -> None:
    """All sockets, at any moment."""
    while at.lending is not None:
        await asyncio.sleep(rng.random() * 0.02)
        for number in list(at.lending._loans):
            at.lending._take_back(number)


async def until_written(site: Site, wanted: set[bytes]) -> None:
    def written() -> list[bytes]:
        return sorted(record.value for record in site.read(site.orders))

    async with asyncio.timeout(30):
        while (found := await asyncio.to_thread(written)) != sorted(wanted):
            assert len(found) <= len(wanted), (found, wanted)
            await asyncio.sleep(0.05)


async def test_what_is_committed_is_on_kafka_exactly_once_and_each_answer_is_its_askers(
    site: Site, way: str, path: str | None, rng: Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sockets go to and fro as often as they can, and in the middle of requests."""
    monkeypatch.setattr("halfhitch.doors.http.lending._BETWEEN_LOANS_S", 0.0)
    committed: set[bytes] = set()
    async with served(site, way, path) as at:
        clients = [await at.lent(site) for _ in range(4)]
        locks = [asyncio.Lock() for _ in clients]

        async def ask(data: bytes, *, cut: int = 0) -> Answer:
            place = rng.randrange(len(clients))
            async with locks[place]:
                if cut:
                    await clients[place].send(data[:cut])
                    await asyncio.sleep(0.001)
                return await clients[place].ask(data[cut:])

        async def one(n: int) -> None:
            body = b"message %d" % n
            unique = uuid.UUID(int=rng.getrandbits(128), version=4)
            headers = [("Half-Header-kind", f"k{n}")] if rng.random() < 0.5 else []
            headers += [("Half-Key", f"key{n % 5}")] if rng.random() < 0.5 else []
            named = [("Half-Transaction-Id", unique.hex)] if rng.random() < 0.1 else []
            asked = rng.choice([half, prepare])(site.orders, body, *headers, *named)
            made = await ask(asked, cut=rng.choice([0, 0, 0, 3, 70, len(asked) - 1]))
            assert made.status == 201, made
            mine, handle = name_and_handle(made)
            if named:
                assert mine == unique.hex
                if rng.random() < 0.2:  # somebody met a timeout
                    assert name_and_handle(await ask(asked))[0] == mine
            if rng.random() < 0.05:
                view = await ask(request("GET", f"/v1/transactions/{handle}"))
                assert view.json()["transaction_id"] == mine
            how = rng.choice(["commit", "commit", "rollback"])
            for _ in range(rng.choice([1, 1, 2])):
                told = await ask(end(made, how))
                state = "committed" if how == "commit" else "rolled_back"
                assert told.json() == {"transaction_id": mine, "state": state}
            if how == "commit":
                committed.add(body)

        taking = asyncio.ensure_future(take_back(at, rng))
        for begin in range(0, 300, 30):
            await asyncio.gather(*[one(n) for n in range(begin, begin + 30)])
        taking.cancel()
        await until_written(site, committed)
        if way == "native":
            assert at.native_count > 50, at.native_count  # of some 700
        assert sum(at.answers.count((route, 201)) for route in ("half", "prepare")) >= 300
    for record in site.read(site.orders):
        said = digest_in(record.headers[-1][1] or b"")
        users = record.headers[:-3]
        assert said == digest_of(site.orders, None, record.key, record.value, users) != 0


async def test_a_prepare_as_json_is_answered_as_one_that_comes_over_a_socket_that_is_not_lent(
    site: Site, way: str
) -> None:
    """What native threads take, and what they leave to the loop."""
    asked = [
        {"value": "grün"}, {"value": {"a": [1, None]}, "key": "k"}, {"value": 7.50},
        {"value_base64": "AP8=", "headers": [["a", "1"], ["a", {"base64": "/w=="}]]},
        {"value": None}, {"value": "v", "partition": 0}, {"value": "v", "partition": 99},
        {"value": "v", "value_base64": "AA=="}, {"value_base64": "A"}, {},
        {"value": "v", "headers": {"UNIQ_KEY": "x"}}, {"value": "v", "more": 1},
    ]  # fmt: skip
    async with served(site, way) as at:
        native_count = 0
        for message in asked:
            body = {"producer_group": GROUP, "messages": [{"topic": site.orders, **message}]}
            sent = json_post("/v1/transactions", body)
            client, other = await at.lent(site), await at.client()
            made, expected = await client.ask(sent), await other.ask(sent)
            assert (made.status, made.headers) == (expected.status, expected.headers)
            if made.status != 201:
                assert made.body == expected.body
                continue
            for one in (made, expected):
                name, handle = name_and_handle(one)
                said = one.body.decode().replace(name, "I").replace(handle, "H")
                assert said == '{"transaction_id":"I","handle":"H","state":"pending"}'
            assert (await client.ask(end(made, "rollback"))).status == 200
            native_count += message in asked[:4]
        if at.lending is not None:
            await until(lambda: at.native_count >= 2 * native_count, "it to be native")
        assert at.answers.count(("prepare", 201)) == 12


async def test_requests_that_come_together_are_answered_in_their_order(
    site: Site, way: str, path: str | None
) -> None:
    async with served(site, way, path) as at:
        client = await at.lent(site)
        bodies = [b"v%d" % n for n in range(20)]
        asked = [half(site.orders, body) for body in bodies]
        asked[7:7] = [request("GET", "/nowhere")]
        await client.send(b"".join(asked))
        answers = [await client.answer("POST") for _ in asked]
        assert answers.pop(7).status == 404
        for n, made in enumerate(answers):
            how = "commit" if n % 2 else "rollback"
            assert (await client.ask(end(made, how))).status == 200
        await until_written(site, set(bodies[1::2]))


async def test_the_first_decision_stands_whichever_way_the_second_one_comes(
    site: Site, way: str
) -> None:
    async with served(site, way) as at:
        client, other = await at.lent(site), await at.client()
        made = await client.ask(half(site.orders, b"kept"))
        assert (await client.ask(end(made, "commit"))).status == 200
        for asker in (client, other):
            refused = await asker.ask(end(made, "rollback"))
            assert (refused.status, refused.code) == (409, "contrary_decision")
            assert (await asker.ask(end(made, "commit"))).json()["state"] == "committed"
        await client.close()
        client = await at.lent(site)
        made = await client.ask(half(site.orders, b"dropped"))
        assert (await other.ask(end(made, "rollback"))).status == 200
        refused = await client.ask(end(made, "commit"))
        assert (refused.status, refused.code) == (409, "contrary_decision")
        await until_written(site, {b"kept"})


async def test_contrary_ends_at_the_same_moment_are_not_both_taken(site: Site, way: str) -> None:
    async with served(site, way) as at:
        client, other = await at.lent(site), await at.client()
        kept: set[bytes] = set()
        for n in range(40):
            body = b"%d" % n
            made = await client.ask(half(site.orders, body))
            told = await asyncio.gather(
                client.ask(end(made, "commit")), other.ask(end(made, "rollback"))
            )
            assert sorted(answer.status for answer in told) == [200, 409], told
            kept |= {body} if told[0].status == 200 else set()
        await until_written(site, kept)


async def test_a_name_stands_for_one_message_whichever_way_it_came(site: Site, way: str) -> None:
    async with served(site, way) as at:
        client, other = await at.lent(site), await at.client()
        for first, second in ((client, other), (other, client)):
            for made, again in ((half, half), (half, prepare), (prepare, half), (prepare, prepare)):
                named = ("Half-Transaction-Id", uuid.uuid4().hex)
                assert (await first.ask(made(site.orders, b"one", named))).status == 201
                refused = await second.ask(again(site.orders, b"another", named))
                assert (refused.status, refused.code) == (409, "transaction_id_reused")
                assert (await second.ask(again(site.orders, b"one", named))).status == 201


@pytest.mark.parametrize("form", [half, prepare], ids=["raw", "JSON"])
async def test_what_is_named_goes_natively_from_prepare_to_commit(
    site: Site, path: str | None, way: str, form: Callable[..., bytes]
) -> None:
    """So that our own client, which names everything, gains by it."""
    async with served(site, way, path) as at:
        client = await at.lent(site)
        names = [uuid.uuid4().hex for _ in range(20)]
        before = at.native_count
        for n, name in enumerate(names):
            key = [("Half-Key", f"k{n}")] if n % 2 else []
            made = await client.ask(
                form(site.orders, b"%d" % n, ("Half-Transaction-Id", name), *key)
            )
            mine, handle = name_and_handle(made)
            assert mine == name
            known = at.engine.transactions.read_handle(handle)
            place = half_partition(b"k%d" % n if key else None, name, 2)
            assert (known.partition, known.transaction_id) == (place, name)
            assert (await client.ask(end(made, "commit"))).json()["state"] == "committed"
        await until_written(site, {b"%d" % n for n in range(20)})
        if at.lending is not None:
            await until(lambda: at.native_count >= before + 40, "all of it to be native")


async def test_the_same_name_many_times_at_one_moment_is_one_message(site: Site, way: str) -> None:
    async with served(site, way) as at:
        clients = [await at.lent(site) for _ in range(4)]
        kept: set[bytes] = set()
        for n in range(25):
            named = ("Half-Transaction-Id", uuid.uuid4().hex)
            bodies = [b"%d.%d" % (n, at % 2) for at in range(len(clients))]
            made = await asyncio.gather(
                *[client.ask(half(site.orders, body, named))
                  for client, body in zip(clients, bodies, strict=True)]
            )  # fmt: skip
            taken = {body for body, one in zip(bodies, made, strict=True) if one.status == 201}
            assert len(taken) == 1
            assert {one.code for one in made if one.status != 201} == {"transaction_id_reused"}
            for one, client in zip(made, clients, strict=True):
                if one.status == 201:
                    assert (await client.ask(end(one, "commit"))).status == 200
            kept |= taken
        await until_written(site, kept)


async def test_a_name_whose_roll_back_is_not_read_yet_is_not_taken(site: Site, way: str) -> None:
    async with served(site, way) as at:
        client, other = await at.lent(site), await at.lent(site)
        for n in range(20):
            asked = half(site.orders, b"%d" % n, ("Half-Transaction-Id", uuid.uuid4().hex))
            made = await client.ask(asked)
            assert (await client.ask(end(made, "rollback"))).status == 200
            again = await other.ask(asked)
            assert (again.status, again.code) == (409, "contrary_decision")
            await other.close()
            other = await at.lent(site)
        await until_written(site, set())


async def test_a_name_that_was_rolled_back_at_an_instance_that_owns_nothing_was_new_there(
    site: Site, way: str
) -> None:
    """Once decisions of the last moments were forgotten: 201, its commit 200, no message.

    Only the owner knows it for longer, and that is another instance.
    """
    async with (
        served(site, way) as owner,
        served(site, way, owner_enabled=False, working=None) as at,
    ):
        await until(lambda: not at.engine.unready_reasons(), "the other one to be ready")
        taker, client = await owner.lent(site), await at.lent(site)
        names = [uuid.uuid4().hex for _ in range(6)]
        for name in names:
            asked = half(site.orders, b"dropped", ("Half-Transaction-Id", name))
            made = await taker.ask(asked)
            assert made.status == 201
            assert (await client.ask(end(made, "rollback"))).status == 200

        for lane in at.engine.appends().decisions._lanes.values():
            lane.remembered = Remembered()
        client = await at.lent(site)
        for name in names:
            again = await client.ask(half(site.orders, b"dropped", ("Half-Transaction-Id", name)))
            assert (again.status, again.code) == (409, "contrary_decision")
        await until_written(site, set())


async def test_a_name_that_was_rolled_back_or_used_before_a_restart_is_refused(
    site: Site, way: str
) -> None:
    """Natively it got 201, its commit 200, and nobody ever saw it."""
    dropped, kept = (("Half-Transaction-Id", uuid.uuid4().hex) for _ in range(2))
    async with served(site, way) as at:
        client = await at.lent(site)
        made = await client.ask(half(site.orders, b"dropped", dropped))
        assert (await client.ask(end(made, "rollback"))).status == 200
        assert (await client.ask(half(site.orders, b"one", kept))).status == 201
        await until_idle(at.engine)
    async with served(site, way) as at:
        client = await at.lent(site)
        again = await client.ask(half(site.orders, b"dropped", dropped))
        assert (again.status, again.code) == (409, "contrary_decision")
        client = await at.lent(site)
        other = await client.ask(half(site.orders, b"another", kept))
        assert (other.status, other.code) == (409, "transaction_id_reused")


async def test_an_end_of_the_same_name_and_offset_in_another_half_partition_is_judged_there(
    site: Site, way: str
) -> None:
    """Under two keys one name is two transactions, once its first half is forgotten here."""
    keys = [next(f"k{n}" for n in range(99) if half_partition(b"k%d" % n, None, 2) == p)
            for p in (0, 1)]  # fmt: skip
    name = ("Half-Transaction-Id", uuid.uuid4().hex)

    async def prepare(at: Served, client: Client, place: int, *more: tuple[str, str]) -> Answer:
        made = await client.ask(half(site.orders, b"v", ("Half-Key", keys[place]), *more))
        assert made.status == 201, made
        return made

    def offset_of(at: Served, made: Answer) -> int:
        known = at.engine.transactions.read_handle(made.header("half-handle"))
        return int(known.half_offsets[0])

    async with served(site, way) as at:
        client = await at.lent(site)
        for _ in range(20):
            await prepare(at, client, 0)
        dropped = await prepare(at, client, 0, name)
        wanted = offset_of(at, dropped)
        assert (await client.ask(end(dropped, "rollback"))).status == 200
        await until_idle(at.engine)
    async with served(site, way) as at:
        client = await at.lent(site)
        while offset_of(at, await prepare(at, client, 1)) < wanted - 1:
            pass
        kept = await prepare(at, client, 1, name)
        assert offset_of(at, kept) == wanted
        refused = await client.ask(end(dropped, "commit"))
        assert (refused.status, refused.code) == (409, "contrary_decision")
        assert (await client.ask(end(kept, "commit"))).status == 200
        await until_written(site, {b"v"})


async def test_a_commit_behind_another_instances_roll_back_is_told_so_where_the_owner_is(
    site: Site, way: str
) -> None:
    """Natively it got 200 for ten seconds."""
    async with served(site, way) as owner, served(site, "interpreted", working=1) as other:
        await until_working(owner.engine, 1)
        (mine,) = [state.partition for state in owner.engine.partitions()]
        key = next(f"k{n}" for n in range(99) if half_partition(b"k%d" % n, None, 2) == mine)
        client, far = await owner.lent(site), await other.client()
        for n in range(5):
            made = await client.ask(half(site.orders, b"%d" % n, ("Half-Key", key)))
            assert (await far.ask(end(made, "rollback"))).status == 200
            handle = made.header("half-handle")
            async with asyncio.timeout(30):
                while (await owner.engine.transactions.view(handle)).state is PENDING:
                    await asyncio.sleep(0.005)
            refused = await client.ask(end(made, "commit"))
            assert (refused.status, refused.code) == (409, "contrary_decision")
            client = await owner.lent(site)


async def test_ends_went_the_slow_way_while_a_check_was_out(site: Site, way: str) -> None:
    """Only that of what is asked about is the loop's, and the question ends with it."""
    rules = check_rules(immunity_ms=400, interval_ms=60_000, jitter=0.0, count_max=3)
    async with served(site, way, owner_limits=owner_limits(check_rules=rules)) as at:
        Link(at.engine, Witness({"asked": SILENT})).connect()
        client = await at.lent(site)
        asked = await client.ask(half(site.orders, b"asked", ("Half-Transaction-Id", "asked")))
        await until(lambda: at.engine.desk.is_asking, "a check")
        before = at.native_count
        other = await client.ask(half(site.orders, b"other"))
        assert (await client.ask(end(other, "commit"))).json()["state"] == "committed"
        if at.lending is not None:
            await until(lambda: at.native_count == before + 2, "both to be native")
        assert at.engine.desk.is_asking
        assert (await client.ask(end(asked, "commit"))).json()["state"] == "committed"
        await until(lambda: not at.engine.desk.is_asking, "the end of the question")
        assert at.native_count == before + (2 if at.lending is not None else 0)
        await until_written(site, {b"asked", b"other"})
        outcomes = {values[1] for values in site.observer.of("check_settled")}
        assert outcomes == {"decided"}


async def test_what_is_added_to_a_transaction_is_committed_with_it(site: Site, way: str) -> None:
    async with served(site, way) as at:
        client = await at.lent(site)
        made = await client.ask(half(site.orders, b"one"))
        body = {"messages": [{"topic": site.orders, "value": "two"}]}
        target = f"/v1/transactions/{made.header('half-handle')}/messages"
        grown = await client.ask(json_post(target, body))
        assert grown.status == 201
        commit = f"/v1/transactions/{grown.json()['handle']}/commit"
        assert (await client.ask(request("POST", commit))).status == 200
        await until_written(site, {b"one", b"two"})


async def test_a_connection_whose_request_stays_unfinished_is_told_so(
    site: Site, way: str, path: str | None
) -> None:
    async with served(site, way, path, limits={"receive_s": 1.0}) as at:
        client = await at.lent(site)
        await client.send(half(site.orders, b"never whole")[:-3])
        assert (await client.answer("POST")).status == 408


async def test_an_idle_connection_is_closed(site: Site, way: str) -> None:
    async with served(site, way, limits={"idle_s": 1.0}) as at:
        client = await at.lent(site)
        await client.ended()
        await until(lambda: at.door.connection_count == 0, "it to be gone")


async def test_a_stop_lets_what_was_prepared_be_ended_and_takes_nothing_new(
    site: Site, way: str
) -> None:
    async with served(site, way) as at:
        client, other = await at.lent(site), await at.lent(site)
        made = await client.ask(half(site.orders, b"local transaction is running"))
        stopping = asyncio.ensure_future(at.door.stop(drain_s=10))
        await asyncio.sleep(0.1)
        refused = await other.ask(half(site.orders, b"new"))
        assert (refused.status, refused.code) == (503, "shutting_down")
        assert not stopping.done()
        assert (await client.ask(end(made, "commit"))).status == 200
        await stopping
        await until_written(site, {b"local transaction is running"})


async def test_who_goes_away_has_what_he_asked_for_carried_out(site: Site, way: str) -> None:
    async with served(site, way) as at:
        client = await at.lent(site)
        made = await client.ask(half(site.orders, b"kept"))
        await client.send(end(made, "commit"))
        await client.close()
        await until_written(site, {b"kept"})
        await until(lambda: at.door.connection_count == 0, "it to be gone")
        assert at.door.in_flight_count == 0


async def test_who_ends_his_sending_side_is_answered(site: Site, way: str) -> None:
    async with served(site, way) as at:
        client = await at.lent(site)
        await client.send(half(site.orders, b"x") * 3)
        client.writer.write_eof()
        answers = await client.rest("POST")
        assert [answer.status for answer in answers] == [201] * 3
