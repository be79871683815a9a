"""A commit carries the whole transaction as it was acknowledged, never a part of it."""

from __future__ import annotations

import pytest

from halfhitch.core.model import ConflictRead
from halfhitch.core.standing import Standing
from halfhitch.wire.count import count_in
from harness.twin import BlindReader, Twin, identity, turn_until_idle

SOURCES = ("check", "operator", "policy")


def dropped(twin: Twin) -> list[ConflictRead]:
    return [entry for entry in twin.ops() if isinstance(entry, ConflictRead)]


@pytest.mark.parametrize("source", SOURCES)
def test_what_was_added_while_a_question_was_out_is_not_dropped_by_its_answer(source: str) -> None:
    twin = Twin()
    owner = twin.working_owner()
    first = twin.half("T", index=0, value=b"order")
    turn_until_idle(owner)
    # The question covers one message. Its answer waits for the database; meanwhile:
    second = twin.half("T", index=1, topic="points", value=b"points")
    twin.commit("T", covered=1, hints=[first], source=source)
    twin.commit("T", covered=2, hints=[first, second])
    turn_until_idle(owner)
    assert (twin.values(), twin.values("points")) == ([b"order"], [b"points"])
    assert dropped(twin) == []


def counts(twin: Twin) -> list[int]:
    """What the forwarded records say of how many there are."""
    found = []
    for topic in ("orders", "points"):
        for record in twin.kafka.committed(topic):
            headers = record.headers()
            assert headers is not None
            found.append(count_in(headers[-1][1] or b""))
    return found


@pytest.mark.parametrize("source", ["producer", *SOURCES])
def test_each_forwarded_message_says_how_many_its_transaction_has(source: str) -> None:
    twin = Twin()
    owner = twin.working_owner()
    halves = [twin.half("T", index=n, topic=("orders", "points")[n % 2]) for n in range(3)]
    twin.half("U")
    twin.commit("T", covered=3, hints=halves, source=source)
    twin.commit("U")
    turn_until_idle(owner)
    assert sorted(counts(twin)) == [1, 3, 3, 3]


def test_what_a_commit_does_not_cover_is_not_counted() -> None:
    twin = Twin()
    owner = twin.working_owner()
    halves = [twin.half("T", index=n) for n in range(3)]
    twin.commit("T", covered=2, hints=halves[:2])
    turn_until_idle(owner)
    assert counts(twin) == [2, 2]


@pytest.mark.parametrize("source", SOURCES)
def test_a_commit_for_somebody_waits_for_what_is_stored_and_not_read_yet(source: str) -> None:
    twin = Twin()
    reader = BlindReader(twin.kafka, twin.calls)
    owner = twin.working_owner(reader=reader)
    first = twin.half("T", index=0, value=b"order")
    turn_until_idle(owner)
    reader.set_blind(blind=True)
    twin.half("T", index=1, topic="points", value=b"points")
    twin.commit("T", covered=1, hints=[first], source=source)
    turn_until_idle(owner)
    assert twin.written_values() == []
    reader.set_blind(blind=False)
    turn_until_idle(owner)
    assert (twin.values(), twin.values("points")) == ([b"order"], [b"points"])


def test_of_equal_commits_the_one_that_covers_most_counts() -> None:
    """The first was sent with an older handle; both were answered 200."""
    twin = Twin()
    owner = twin.working_owner()
    first = twin.half("T", index=0, value=b"order")
    second = twin.half("T", index=1, topic="points", value=b"points")
    twin.commit("T", covered=1, hints=[first])
    twin.commit("T", covered=2, hints=[first, second])
    turn_until_idle(owner)
    assert (twin.values(), twin.values("points")) == ([b"order"], [b"points"])


def test_a_larger_commit_waits_for_the_message_that_it_covers() -> None:
    twin = Twin()
    reader = BlindReader(twin.kafka, twin.calls)
    owner = twin.working_owner(reader=reader)
    first = twin.half("T", index=0, value=b"order")
    turn_until_idle(owner)
    reader.set_blind(blind=True)
    twin.half("T", index=1, topic="points", value=b"points")
    twin.commit("T", covered=1, hints=[first])
    twin.commit("T", covered=2)  # it names no half, so nothing holds it back
    turn_until_idle(owner)
    assert owner.standing(identity("T"), first) is Standing.COMMITTING
    reader.set_blind(blind=False)
    turn_until_idle(owner)
    assert (twin.values(), twin.values("points")) == ([b"order"], [b"points"])
    assert dropped(twin) == []


def test_the_done_mark_fixes_what_was_covered_for_replays() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.half("pending")  # it holds the half watermark
    first = twin.half("T", index=0, value=b"order")
    twin.commit("T", covered=1, hints=[first], source="check")
    turn_until_idle(owner)
    twin.half("T", index=1, topic="points", value=b"too late")
    turn_until_idle(owner)
    successor = twin.working_owner()
    turn_until_idle(successor)
    assert (twin.values(), twin.values("points")) == ([b"order"], [])
    assert [entry.kind.value for entry in dropped(twin)] == ["uncovered"]


def test_a_producers_commit_covers_what_its_handle_counts() -> None:
    twin = Twin()
    owner = twin.working_owner()
    first = twin.half("T", index=0, value=b"order")
    twin.half("T", index=1, topic="points", value=b"an add that nobody has acknowledged")
    twin.commit("T", covered=1, hints=[first])
    turn_until_idle(owner)
    assert (twin.values(), twin.values("points")) == ([b"order"], [])
    assert [entry.kind.value for entry in dropped(twin)] == ["uncovered"]


def test_messages_that_were_added_before_it_was_given_up_are_parked_with_it() -> None:
    twin = Twin()
    reader = BlindReader(twin.kafka, twin.calls)
    owner = twin.working_owner(reader=reader)
    first = twin.half("T", index=0, value=b"order")
    turn_until_idle(owner)
    reader.set_blind(blind=True)
    twin.half("T", index=1, topic="points", value=b"points")
    twin.give_up_now("T", hints=[first])
    turn_until_idle(owner)
    reader.set_blind(blind=False)
    turn_until_idle(owner)
    assert sorted(twin.values("TRANS_CHECK_MAX_TIME_TOPIC")) == [b"order", b"points"]


def test_a_commit_of_all_takes_in_what_comes_before_it_is_carried_out() -> None:
    """Also behind a gap that is filled; a gap that stays ends what it covers."""
    twin = Twin()
    owner = twin.working_owner()
    first = twin.half("T", index=0, value=b"0")
    twin.commit("T", covered=1, hints=[first], source="check")
    batch = owner._reader.read(0.0)
    owner._feed.take(owner._working_ledger(), batch.half, batch.op)
    for index in (2, 1, 4):
        twin.half("T", index=index, value=b"%d" % index)
    turn_until_idle(owner)
    assert twin.values() == [b"0", b"1", b"2"]
    assert [entry.kind.value for entry in dropped(twin)] == ["uncovered"]
