"""Everything that can go wrong with messages: each class of loss, as losing.py's `loss` takes it.

Both judges must see each of them; what verify cannot tell is said beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos.kit.losing import (
    DAY_MS,
    LONG_MS,
    LOSSES,
    C,
    P,
    R,
    Spoiled,
    a_life,
    again,
    forwarded,
    gone,
    loss,
    no_other_home,
    nobody,
    of_lives,
)
from halfhitch.core.model import (
    PARKED,
    ConflictKind,
    ConflictMark,
    HalfOffset,
    OpOffset,
    ResolutionSource,
)
from halfhitch.verify.report import Kind, Unjudged
from halfhitch.wire import op as op_wire
from halfhitch.wire.count import with_count, without_count
from harness.verify_world import HALF, OP, PARKED_TOPIC, TARGETS

if TYPE_CHECKING:
    from harness.verify_world import Life, World

__all__ = ["LOSSES"]

# -- missing -------------------------------------------------------------------------------------


@loss(Kind.LOST, "lost")
def the_message_of_a_single(world: World) -> Life:
    life = a_life(world, 1)
    gone(world.records_of(life))
    return life


@loss(Kind.TORN, "torn")
def one_message_of_several(world: World) -> Life:
    life = a_life(world, 3)
    gone([world.rng.choice(world.records_of(life))])
    return life


@loss(Kind.TORN, "torn")
def the_messages_on_one_of_two_topics(world: World) -> Life:
    life = a_life(world, 2, messages=no_other_home(2))
    gone(world.records_of(life, world.rng.choice(tuple(TARGETS))))
    return life


@loss((Kind.LOST, Kind.TORN), "lost")
def a_whole_partition(world: World) -> Spoiled:
    a_life(world, 1)
    record, _ = world.rng.choice(forwarded(world))
    return of_lives([pair for pair in forwarded(world) if pair[0].place == record.place])


@loss((Kind.LOST, Kind.TORN), "lost")
def a_whole_topic(world: World) -> Spoiled:
    a_life(world, 1)
    record, _ = world.rng.choice(forwarded(world))
    return of_lives(forwarded(world, record.place[0]))


@loss((Kind.LOST, Kind.TORN), "lost")
def the_oldest(world: World) -> Spoiled:
    a_life(world, 1)
    return of_lives([min(forwarded(world), key=lambda pair: pair[0].time_ms)])


@loss((Kind.LOST, Kind.TORN), "lost")
def the_newest(world: World) -> Spoiled:
    a_life(world, 1)
    return of_lives([max(forwarded(world), key=lambda pair: pair[0].time_ms)])


@loss(Unjudged.TARGET_TRIMMED, "lost")
def by_trim_before_it_was_read(world: World) -> Spoiled:
    """Somebody's DeleteRecords, or retention: time may have taken it lawfully."""
    a_life(world, 1)
    record, _ = world.rng.choice(forwarded(world))
    log = world.logs[record.place]
    hurt = [pair for pair in forwarded(world) if pair[0].place == record.place]
    log.start = len(log.records)
    return Spoiled(list({life.identity: life for _, life in hurt}.values()))


@loss(Kind.LOST, "lost")
def on_a_trimmed_topic_but_on_another_partition(world: World) -> Life:
    life = a_life(world, 1, messages=[("orders", b"k", b"v", 0)])
    gone(world.records_of(life))
    other = world.logs["orders", 1]
    other.start = len(other.records)
    return life


@loss(Kind.LOST, "lost")
def later_than_what_is_left_of_a_trimmed_partition(world: World) -> Life:
    other = world.logs["orders", 1]
    other.start = len(other.records)
    world.append(("orders", 1), None, b"theirs", [("not", b"ours")])
    world.now_ms += LONG_MS
    life = a_life(world, 1, messages=[("orders", b"k", b"v", 1)])
    gone(world.records_of(life))
    return life


@loss(Unjudged.TARGET_COMPACTED, "lost")
def by_compaction_with_a_later_record_of_its_key(world: World) -> Spoiled:
    key = b"key of %d" % world.rng.randrange(1_000_000)
    life = a_life(world, 1, messages=[("orders", key, b"v", 0)])
    a_life(world, 1, messages=[("orders", key, b"w", 0)])
    gone(world.records_of(life))
    return Spoiled([life], compacted={"orders": DAY_MS})


@loss(Kind.LOST, "lost")
def on_a_compacted_topic_with_no_later_record_of_its_key(world: World) -> Spoiled:
    key = b"key of %d" % world.rng.randrange(1_000_000)
    life = a_life(world, 1, messages=[("orders", key, b"v", 0)])
    gone(world.records_of(life))
    return Spoiled([life], compacted={"orders": DAY_MS})


@loss(Kind.LOST, "lost", "unfinished", "watermark-overrun")
def passed_over_by_a_watermark(world: World) -> Life:
    life = world.prepare()
    world.decide(life, C)
    life.state = "pending"  # nobody carries it out
    world.watermarks[life.partition] = life.halves[-1] + 1
    return life


@loss(
    None,
    "lost",
    blind="no log knows of it: nothing was stored; only its producer was told otherwise",
)
def acknowledged_and_never_stored(world: World) -> Life:
    life = world.prepare()
    gone(world.logs[HALF, life.partition].records[at] for at in life.halves)
    return life


# -- more than there should be -------------------------------------------------------------------


@loss(Kind.DOUBLED, "duplicate")
def doubled(world: World) -> Life:
    life = a_life(world, 2)
    again(world, world.rng.choice(world.records_of(life)))
    return life


@loss(Kind.DOUBLED, "duplicate")
def doubled_on_another_partition(world: World) -> Life:
    life = a_life(world, 2)
    record = world.rng.choice(world.records_of(life))
    again(world, record, place=(record.place[0], 1 - record.place[1]))
    return life


@loss(Kind.PHANTOM, "phantom")
def invented(world: World) -> Spoiled:
    life = a_life(world, 1)
    (record,) = world.records_of(life)
    name = f"nobody's-{world.rng.randrange(1_000_000)}"
    headers = [(n, name.encode() if n == "UNIQ_KEY" else v) for n, v in record.stored_headers]
    again(world, record, headers=headers)
    return Spoiled([nobody(life, name)])


@loss(Kind.PHANTOM, "phantom")
def rolled_back_and_visible(world: World) -> Life:
    life = a_life(world, 1, R)
    world.forward(life, 0)
    return life


@loss(Kind.PHANTOM, "phantom")
def undecided_and_visible(world: World) -> Life:
    life = world.prepare(1)
    world.forward(life, 0)
    return life


@loss(Kind.PHANTOM, "phantom")
def committed_after_its_roll_back_was_acknowledged(world: World) -> Life:
    life = world.prepare(2)
    world.decide(life, R)
    world.decide(life, C)
    life.resolution = C
    world.settle()
    return life


@loss(Kind.PHANTOM, "phantom", "double-terminal")
def ended_in_two_ways(world: World) -> Life:
    life = a_life(world, 1, R)
    world.forward(life, 0)
    world.done(life, 1, state="visible")
    return life


@loss(Kind.PHANTOM, "unfinished", "phantom")
def forwarded_without_a_done_mark(world: World) -> Life:
    life = world.prepare(1)
    world.decide(life, C)
    life.state = "ended"
    world.forward(life, 0)
    return life


@loss(Kind.PHANTOM, "double-terminal")
def rolled_back_and_parked(world: World) -> Life:
    life = a_life(world, 2, R)
    for index, half_offset in enumerate(life.halves):
        world.park(life, index, half_offset).state = "visible"
    return life


@loss(Kind.DOUBLED, "double-terminal")
def parked_and_committed(world: World) -> Life:
    life = a_life(world, 2)
    for index, half_offset in enumerate(life.halves):
        world.park(life, index, half_offset).state = "visible"
    return life


# -- parked --------------------------------------------------------------------------------------


@loss(Kind.LOST, "lost")
def parked_and_not_kept(world: World) -> Life:
    life = a_life(world, 2, P)
    gone(world.records_of(life, PARKED_TOPIC))
    return life


@loss(Kind.TORN, "lost")
def parked_in_part(world: World) -> Life:
    life = a_life(world, 3, P)
    gone([world.rng.choice(world.records_of(life, PARKED_TOPIC))])
    return life


@loss(Kind.TORN, "lost")
def committed_refused_and_parked_in_part(world: World) -> Life:
    life = world.prepare(2)
    world.decide(life, C)
    kept = world.rng.randrange(2)
    world.park(life, kept, life.halves[kept], together_count=2).state = "visible"
    world.done(life, PARKED, state="visible")
    life.state = "parked"
    return life


@loss(Kind.CORRUPTED, "corrupted")
def parked_and_changed(world: World) -> Life:
    life = a_life(world, 2, P)
    record = world.rng.choice(world.records_of(life, PARKED_TOPIC))
    record.stored_value = (record.stored_value or b"") + b"!"
    return life


# -- not what was sent, not where, not in its order ----------------------------------------------


@loss(Kind.CORRUPTED, "corrupted")
def another_value(world: World) -> Life:
    life = a_life(world, 2)
    record = world.rng.choice(world.records_of(life))
    record.stored_value = (record.stored_value or b"") + b"!"
    return life


@loss(Kind.CORRUPTED, "corrupted")
def null_where_there_was_an_empty_value(world: World) -> Life:
    life = a_life(world, 1, messages=[("orders", b"k", b"", 0)])
    world.records_of(life)[0].stored_value = None
    return life


@loss(Kind.CORRUPTED, "corrupted")
def another_key(world: World) -> Life:
    life = a_life(world, 1, messages=[("orders", b"k", b"v", 0)])
    world.records_of(life)[0].stored_key = b"another"
    return life


@loss(Kind.CORRUPTED, "corrupted")
def another_header(world: World) -> Life:
    life = a_life(world, 2)
    record = world.rng.choice(world.records_of(life))
    record.stored_headers = [("kind", b"y"), *record.stored_headers[1:]]
    return life


@loss(Kind.CORRUPTED, "corrupted")
def another_count(world: World) -> Life:
    """Readers would wait for a message that does not exist, or not wait for one that does."""
    life = a_life(world, 2)
    record = world.rng.choice(world.records_of(life))
    *others, (name, marker) = record.stored_headers
    wrong = with_count(without_count(marker or b""), world.rng.choice([1, 3]))
    record.stored_headers = [*others, (name, wrong)]
    return life


@loss(Kind.CORRUPTED, "corrupted")
def another_value_when_its_half_is_gone(world: World) -> Life:
    """Its half is not trimmed for the checker, which has a copy of the logs."""
    life = a_life(world, 1)
    world.records_of(life)[0].stored_value = b"other"
    log = world.logs[HALF, life.partition]
    log.start = len(log.records)
    return life


@loss(Kind.MISROUTED, "misrouted")
def another_topic(world: World) -> Life:
    life = a_life(world, 1)
    (record,) = world.records_of(life)
    other = "points" if record.place[0] == "orders" else "orders"
    again(world, record, place=(other, record.place[1]))
    gone([record])
    return life


@loss(Kind.MISROUTED, "misrouted")
def another_partition_than_the_chosen_one(world: World) -> Life:
    life = a_life(world, 1, messages=[("orders", None, b"v", 1)])
    (record,) = world.records_of(life)
    again(world, record, place=("orders", 0))
    gone([record])
    return life


@loss((Kind.MISROUTED, Unjudged.TARGET_GROWN), "misrouted")
def another_partition_than_its_keys(world: World) -> Life:
    key = b"key-%d" % world.rng.randrange(1_000)
    life = a_life(world, 1, messages=[("orders", key, b"v", None)])
    (record,) = world.records_of(life)
    again(world, record, place=("orders", 1 - record.place[1]))
    gone([record])
    return life


@loss(None, "disordered", blind="verify does not judge order, and says so (`order_judged`)")
def reordered(world: World) -> Spoiled:
    key = b"key of %d" % world.rng.randrange(1_000_000)
    first, second = (
        a_life(world, 1, messages=[("orders", key, value, 0)]) for value in (b"1", b"2")
    )
    while second.partition != first.partition:
        second = a_life(world, 1, messages=[("orders", key, b"3", 0)])
    (one,), (other,) = world.records_of(first), world.records_of(second)
    for name in ("stored_value", "stored_headers"):
        mine, theirs = getattr(one, name), getattr(other, name)
        setattr(one, name, theirs)
        setattr(other, name, mine)
    return Spoiled([first, second])


# -- left out by its own commit ------------------------------------------------------------------


def _carried_out_short(world: World, counts: list[int], source: ResolutionSource) -> Life:
    life = world.prepare(messages=no_other_home(2))
    world.now_ms += LONG_MS
    for count in counts:
        world.decide(life, C, count=count, source=source)
    world.forward(life, 0)
    world.done(life, 1, state="visible")
    if world.rng.random() < 0.5:
        halves = [HalfOffset(life.halves[1])]
        mark = ConflictMark(life.identity, ConflictKind.UNCOVERED, OpOffset(0), halves)
        ((value, headers, _),) = op_wire.write_step([], [mark])
        world.append((OP, life.partition), None, value, headers)
    life.state, life.resolution = "ended", C
    return life


@loss(Kind.TORN, "torn")
def left_out_though_its_commit_counts_it(world: World) -> Life:
    counts = world.rng.choice([[2], [1, 2], [2, 1]])
    return _carried_out_short(world, counts, ResolutionSource.PRODUCER)


@loss(Kind.TORN, "torn")
def left_out_by_the_answer_to_a_check(world: World) -> Life:
    return _carried_out_short(world, [1], ResolutionSource.CHECK)


@loss(Unjudged.LEFT_OUT, "torn")
def left_out_by_a_commit_that_counts_fewer_than_were_acknowledged(world: World) -> Life:
    """The log cannot tell it from a message whose add had failed."""
    return _carried_out_short(world, [1], ResolutionSource.PRODUCER)
