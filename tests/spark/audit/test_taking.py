"""Taking a partition: in parts, with what is told beside the facts, and overtaken by trimming."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from chaos.kit.losing import played
from halfhitch.core.model import ConflictKind, ConflictMark, HalfOffset, OpOffset
from halfhitch.verify.pieces import Piece
from halfhitch.wire import op as op_wire
from halfhitch_spark.audit import taking
from halfhitch_spark.audit.plan import Wanted, make_plan
from halfhitch_spark.audit.run import Given, look
from halfhitch_spark.audit.taking import SEEN, RowRecord, Seen, taken
from harness.spark_audit import NAMES, RULES, WorldOffsets, WorldPieces, by_spark, row_of
from harness.verify_world import OP, TARGETS

if TYPE_CHECKING:
    from halfhitch_spark.audit.plan import Plan
    from harness.verify_world import World


def plan_of(world: World) -> Plan:
    return make_plan(WorldOffsets(world), Wanted(NAMES, tuple(TARGETS)))


def taken_of(world: World, place: tuple[str, int]) -> tuple[list[Piece], Seen]:
    rows = [row_of(r) for r in world.logs[place].records if r.state == "visible"]
    found = list(taken(plan_of(world), rows))
    (seen,) = (one for bucket, one in found if bucket == SEEN)
    assert isinstance(seen, Seen)
    return [piece for _, piece in found if isinstance(piece, Piece)], seen


def test_a_row_is_a_record_as_kafkas_clients_have_it() -> None:
    headers = ["a", "b"], [bytearray(b"x"), None]
    record = RowRecord(("orders", 1, 7, 1_000, 1, bytearray(b"k"), None, *headers))
    assert (record.topic(), record.partition(), record.offset()) == ("orders", 1, 7)
    assert record.timestamp() == (2, 1_000)
    assert (record.key(), record.value()) == (b"k", None)
    assert record.headers() == [("a", b"x"), ("b", None)]
    assert RowRecord(("orders", 1, 7, 1_000, 0, None, b"", None, None)).headers() is None


def test_no_rows_are_nothing(rng: random.Random) -> None:
    assert list(taken(plan_of(played(rng.randrange(2**32))), [])) == []


def test_facts_that_go_out_in_many_parts_are_judged_as_one(
    rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = played(rng.randrange(2**32))
    whole = by_spark(world).whole
    monkeypatch.setattr(taking, "_CHUNK", 7)
    monkeypatch.setattr(taking, "HELD_MAX", 7)
    pieces, _ = taken_of(world, (OP, 0))
    assert len({piece.order for piece in pieces}) > 1
    parts = by_spark(world).whole
    assert parts.violations == whole.violations == []
    assert (parts.ended, parts.judged) == (whole.ended, whole.judged)
    assert parts.unfinished == whole.unfinished


def test_conflicts_are_told_one_by_one_and_counted(
    rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "CONFLICTS_MAX", 2)
    world = played(rng.randrange(2**32))
    life = world.committed()[0]
    for kind in (ConflictKind.CONTRARY, ConflictKind.REUSED, ConflictKind.CONTRARY):
        mark = ConflictMark(life.identity, kind, OpOffset(3), [HalfOffset(9)])
        ((value, headers, _),) = op_wire.write_step([], [mark])
        world.append((OP, life.partition), None, value, headers)
    _, seen = taken_of(world, (OP, life.partition))
    group = life.identity[0]
    assert seen.conflict_counts == {(group, "contrary"): 2, (group, "reused"): 1}
    assert [c.kind for c in seen.conflicts] == ["contrary", "reused"]
    assert seen.groups >= {group}


def test_a_log_that_was_trimmed_behind_its_reader_is_judged_and_one_overtaken_is_not(
    rng: random.Random,
) -> None:
    world = played(rng.randrange(2**32))
    assert by_spark(world).whole.is_complete
    log = world.logs[OP, 0]
    for record in log.records:
        if record.state == "aborted":  # garbage instead of a gap
            record.state, record.stored_headers = "visible", []

    class Trims(WorldOffsets):
        """Between the plan and what is asked when all was read."""

        def starts(self, places: object) -> dict[tuple[str, int], int]:
            found = super().starts(places)  # type: ignore[arg-type]
            log.start = len(log.records) - 1
            return found

    for is_overtaken in (False, True):
        log.start = 0
        wanted = Wanted(NAMES, tuple(TARGETS))
        kafka = Trims(world)
        plan = make_plan(kafka, wanted)
        hidden = log.records[2:-2] if is_overtaken else []
        states = [record.state for record in hidden]
        for record in hidden:
            record.state = "aborted"
        pieces = WorldPieces(world, plan)
        for record, state in zip(hidden, states, strict=True):
            record.state = state
        found = look(pieces, kafka, Given("nowhere:1", wanted, RULES), plan)
        assert found.account.op_gap == is_overtaken
        assert found.whole.is_complete != is_overtaken
        assert found.whole.violations == []
