"""What must have come of a life, from the whole of its logs and from what the apps know.

Nothing here is incremental and nothing is asked of the ledger: records are read with the codecs,
true times come from the cluster, deliveries from the desk. Clocks are believed by nobody.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import msgspec

from halfhitch.core.model import (
    COPIED,
    ConflictKind,
    DecisionRead,
    DoneRead,
    Identity,
    ProducerGroup,
    Resolution,
    ResolutionSource,
    TransactionId,
)
from halfhitch.wire import op as op_wire
from halfhitch.wire.half import Garbage, read_identity, user_headers
from halfhitch.wire.parked import LATE, Parked, Resumed, read_parked
from harness.audit import judge_ended, judge_indexes
from harness.simulation.apps import COMMIT, ROLLBACK
from harness.simulation.cluster import HALF, OP, PARKED, POISONED, TARGETS
from harness.simulation.story import OneLife, Story

if TYPE_CHECKING:
    from harness.simulation.apps import Transaction
    from harness.simulation.cluster import Cluster
    from harness.simulation.desk import Sent
    from harness.simulation.life import Life

#: A decision may be stored so much before the first half: a prepare that is tried again arrives
#: after the roll back of the one that seemed to fail.
EARLY_MS = 60_000
#: The interval begins with the owner's turn, the check leaves when its step is written.
STEP_MS = 0
#: Lost on the way so often, a number counts as delivered.
LOST_MAX = 3
#: So long a check and its answer may be on their way, past the end of the owner that asked.
WAY_MS = 20_000
PARK = Resolution.PARK


class Account:
    """Reads everything once."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.cluster: Cluster = life.cluster
        self.stories: dict[Identity, Story] = {}
        self._read_op()
        self._read_halves()
        self._read_targets()

    def of(self, identity: Identity) -> Story:
        return self.stories.setdefault(identity, Story(identity))

    def true_ms(self, topic: str, log_offset: int) -> int:
        return self.cluster.stored_at[topic, 0, log_offset]

    def _records(self, topic: str) -> list[Any]:
        """Everything committed, deleted records included."""
        kafka = self.cluster.kafka
        logs = [kafka.log(topic, p) for p in range(kafka.partition_count(topic) or 0)]
        return [record for log in logs for record in log.records if record.is_committed]

    def _read_op(self) -> None:
        for record in self._records(OP):
            headers = record.headers()
            events = op_wire.read(record.offset(), 0, record.value(), headers)
            assert not isinstance(events, Garbage), events
            for event in events:
                story = self.of(event.identity)
                if isinstance(event, DecisionRead):
                    story.decisions.append(event)
                elif isinstance(event, DoneRead):
                    story.done.append(event)
                elif event.kind is ConflictKind.REUSED:
                    story.reused.update(event.half_offsets)
                elif event.kind is ConflictKind.UNCOVERED:
                    story.uncovered.update(event.half_offsets)
            if headers[0][1] == op_wire.TAG_NOTE:
                for entry in msgspec.json.decode(headers[1][1][1:]):  # a proof has none
                    identity = ProducerGroup(entry[0]), TransactionId(entry[1])
                    self.cluster.timeline.count["fences"] += 1
                    self.of(identity)

    def _read_halves(self) -> None:
        for record in self._records(HALF):
            half = read_identity(record.offset(), 0, 0, record.headers())
            assert not isinstance(half, Garbage), half
            story = self.of(half.identity)
            while len(story.lives) <= half.resumed_count:
                story.lives.append(OneLife(len(story.lives)))
            life = story.lives[half.resumed_count]
            life.halves.append(half)
            if half.resumed_count and life.fence < 0:
                life.fence, life.born = half.fence, half.born
                story.lives[half.resumed_count - 1].until = half.fence
        for story in self.stories.values():
            for life in story.lives[:-1]:
                self._move_on(story, life)

    def _move_on(self, story: Story, life: OneLife) -> None:
        """What was added when it had been put back belongs to the life that it found."""
        for half in list(life.halves):
            later = [
                other
                for other in story.lives[life.count + 1 :]
                if other.halves[0].half_offset < half.half_offset
            ]
            put_back = {h.index for other in later for h in other.halves if h.resumed_count}
            if later and half.index not in put_back:
                life.halves.remove(half)
                if half.index in later[-1].indexes and half.first_stored_ms < 0:
                    continue  # tried again: the first one has joined
                later[-1].halves.append(half)
                self.cluster.timeline.count["late messages that joined the next life"] += 1

    def _read_targets(self) -> None:
        for topic in TARGETS:
            for record in self._records(topic):
                headers = dict(record.headers())
                identity = (
                    ProducerGroup(headers["PGROUP"].decode()),
                    TransactionId(headers["UNIQ_KEY"].decode()),
                )
                index = int(headers["HALFHITCH"].split(b";")[1])
                self.of(identity).forwarded.append((index, record))
        for record in self._records(PARKED):
            found = read_parked(record.offset(), record.headers())
            assert not isinstance(found, Garbage), found
            if isinstance(found, Parked):
                half = read_identity(record.offset(), 0, 0, record.headers())
                assert not isinstance(half, Garbage), half
                self.of(half.identity).parked.append((half.index, record, found))
            elif isinstance(found, Resumed):
                identity = ProducerGroup(found.producer_group), TransactionId(found.transaction_id)
                self.of(identity).resumed.append(found)

    # -- who has won ------------------------------------------------------------------------------

    def winners(self, story: Story, life: OneLife) -> list[DecisionRead | Resolution]:
        """The decision that must have won this life; several where it is a matter of moments."""
        if life.born is not None:
            return [life.born]
        began_ms = min(self.true_ms(HALF, half.half_offset) for half in life.halves)
        within = [
            d
            for d in story.decisions
            if life.fence < d.op_offset < life.until
            and self.true_ms(OP, d.op_offset) + EARLY_MS >= began_ms
        ]
        result: list[DecisionRead | Resolution] = list(within[:1])
        if not self.life.plan.brokers_agree:
            # A roll back that lies before its prepare is known by the time alone.
            result += [d for d in within if self.true_ms(OP, d.op_offset) >= began_ms][:1]
        if life.count:
            # Said of the former life in the moment of the resume: it may count for this one.
            result += [d for d in story.decisions
                       if d.op_offset < life.fence and d.resolution is not PARK]  # fmt: skip
        return result


def judge(life: Life) -> None:
    """Everything has come to rest: all invariants, then what a replay of all there is makes."""
    account = Account(life)
    for identity, transaction in life.apps.transactions.items():
        story = account.stories.get(identity)
        if story is not None and story.lives:
            _judge_story(account, story, transaction)
    _judge_checks(account)
    account.cluster.timeline.count["indexes"] += judge_indexes(life.cluster.kafka)


# -- one transaction ------------------------------------------------------------------------------


def _judge_story(account: Account, story: Story, truth: Transaction) -> None:
    for_somebody = any(d.source is not ResolutionSource.PRODUCER and d.resolution is COMMIT
                       for d in story.decisions)  # fmt: skip
    _judge_forwarded(story, truth, for_somebody=for_somebody)
    _judge_parked(account, story, truth)
    missing = set(truth.reused) - story.reused
    assert not missing, f"B1: {story.identity[1]} is used again, and {missing} are not on record"
    name = story.identity[1]
    for life in story.lives:
        is_last = life is story.lives[-1]
        found = _ended_as(story, life)
        if is_last:
            assert found is not None, f"I3: {name} is forgotten: undecided and not given up"
        elif found is None:
            raise AssertionError(f"I3: {name} was put back, but had not ended: {life}")
        allowed = {
            w if isinstance(w, Resolution) else w.resolution for w in account.winners(story, life)
        }
        if truth.is_honest and allowed & {COMMIT, ROLLBACK}:
            account.cluster.timeline.count["judged by the truth"] += 1
        assert found in allowed, f"I5: {name} ended as {found}, first was {allowed}: {story}"
    last = _ended_as(story, story.lives[-1])
    is_parked = _is_parked_now(story)
    if last is COMMIT:
        is_late = bool(story.forwarded and story.left_behind)
        account.cluster.timeline.count["late messages that missed the resume"] += is_late
        is_right = bool(story.forwarded) is not is_parked or is_late
        assert is_right, f"I1: {name} is committed and lost"
    elif last is ROLLBACK:
        assert not story.forwarded, f"I2: {name} is rolled back and visible"
        assert not is_parked or story.left_behind, f"I2: {name} is rolled back and parked"
    else:
        assert not story.forwarded, f"I3: {name} is given up and visible"
        assert is_parked, f"I3: {name} is given up and lost"
    _judge_told(account, story)
    _judge_late(account, story, truth, last)
    _judge_promptness(account, story, truth)


def _ended_as(story: Story, life: OneLife) -> Resolution | None:
    """As the done marks of its halves say."""
    own = {half.half_offset for half in life.halves}
    for mark in story.done:
        if mark.ending != COPIED and own.intersection(mark.half_offsets):
            return {0: ROLLBACK, -1: COMMIT, -2: PARK}.get(mark.ending, COMMIT)
    return None


def _judge_told(account: Account, story: Story) -> None:
    """The audit topic tells of each life once, and of each check that was asked."""
    endings: dict[int, int] = {}
    for life in story.lives:
        own = {half.half_offset for half in life.halves}
        marks = [m for m in story.done if m.ending != COPIED and own.intersection(m.half_offsets)]
        endings[life.count] = marks[0].ending
    partition = getattr(account.life, "audit_partition", 0)
    judge_ended(account.cluster.kafka, story.identity, endings, partition)
    account.cluster.timeline.count["endings told"] += len(endings)


def _judge_forwarded(story: Story, truth: Transaction, *, for_somebody: bool) -> None:
    """Once, whole, byte for byte. Who commits for the producer commits what is there."""
    name = story.identity[1]
    times = Counter(index for index, _ in story.forwarded)
    assert all(count == 1 for count in times.values()), f"I1: {name} is visible twice: {times}"
    if story.forwarded:
        count = truth.covered_count - truth.is_incomplete
        missing = set(range(count)) - set(times)
        is_whole = len(times) + len(missing) == count and missing <= story.left_behind
        assert is_whole, f"I1: {name} is torn: {times}"
        is_meant = for_somebody or bool(story.resumed)  # who puts it back, says that it is enough
        assert is_meant or not truth.is_incomplete, f"I1: {name} is visible, one never came"
    for index, record in story.forwarded:
        _judge_content(name, truth.messages[index], record)
        assert record.topic() == truth.messages[index].topic, f"I1: {name} is misrouted"
        assert record.headers()[: len(truth.messages[index].headers)] == (
            truth.messages[index].headers
        ), f"I1: headers of {name}: {record.headers()}"


def _judge_content(name: str, message: Any, record: Any) -> None:
    assert record.key() == message.key, f"key of {name}: {record.key()!r}"
    assert record.value() == message.value, f"value of {name}: {record.value()!r}"


def _judge_parked(account: Account, story: Story, truth: Transaction) -> None:
    """Each life that ended there has put each of its messages there once, with all it had."""
    by_life: dict[int, list[int]] = defaultdict(list)
    for index, record, why in story.parked:
        by_life[story.life_of(why.half_offset).count].append(index)
        account.cluster.timeline.count["late messages parked"] += why.reason == LATE
        message = truth.messages[index]
        _judge_content(story.identity[1], message, record)
        kept = [h for h in user_headers(record.headers()) if h[0] != "HALFHITCH_PARKED"]
        assert kept == message.headers, f"I3: parked headers: {record.headers()}"
    for life in story.lives:
        found = by_life.pop(life.count, [])
        count = Counter(found)
        text = f"{story.identity[1]} life {life.count}: {count} of {life.indexes}"
        assert all(times == 1 for times in count.values()), f"I3: parked twice: {text}"
        ended = _ended_as(story, life)
        if ended is PARK:
            assert set(count) == life.indexes, f"I3: not all of it is parked: {text}"
        elif ended is ROLLBACK:
            assert not count, f"I2: rolled back, but parked: {text}"
        elif count:
            refused = {POISONED, *account.cluster.refused}
            is_reason = truth.is_incomplete or any(m.topic in refused for m in truth.messages)
            assert is_reason, f"I1: parked without need: {text}"
    assert not by_life, f"parked in a life that there is not: {story}"
    lives = {note.resumed_count for note in story.resumed}
    assert lives == set(range(1, len(story.lives))), f"resumes: {story.resumed}"


def _is_parked_now(story: Story) -> bool:
    put_back = {tuple(place) for note in story.resumed for place in note.parked_at}
    places = [(record.partition, record.offset()) for _, record, _ in story.parked]
    left = [place for place in places if place not in put_back]
    assert not left or not put_back or len(left) < len(places)
    return bool(left)


def _judge_late(
    account: Account, story: Story, truth: Transaction, last: Resolution | None
) -> None:
    """What was decided after the giving up is known where it is parked (and nowhere undone)."""
    from harness.simulation.operators import fold

    if last is not PARK or not truth.is_honest:
        return
    if truth.seems_to_fail and not account.life.plan.brokers_agree:
        return  # its roll back lies before its prepare, and whose it is cannot be told
    said = [d for d in story.decisions if d.resolution is not PARK]
    parkings = fold(account.cluster).parkings(story.identity)
    assert len(parkings) == 1, f"I3: {story.identity[1]} is parked as {parkings}"
    if said:
        account.cluster.timeline.count["late decisions beside the parked"] += 1
        assert parkings[0].decision == said[0].resolution.value, (
            f"I1: {story.identity[1]} was decided ({said[0]}), and the parked one does not say so"
        )


def _judge_promptness(account: Account, story: Story, truth: Transaction) -> None:
    """Without faults, and with producers who answer, it takes no longer than its checks do."""
    life, rules = account.life, account.life.plan.rules
    group = life.apps.groups[story.identity[0]]
    began_ms = account.true_ms(HALF, story.lives[-1].halves[0].half_offset)
    if group.live_count == 0 or began_ms > life.calm_ms or truth.is_incomplete:
        return
    own = {half.half_offset for half in story.lives[-1].halves}
    ended_ms = min(
        account.true_ms(OP, mark.op_offset)
        for mark in story.done
        if mark.ending != COPIED and own.intersection(mark.half_offsets)
    )
    interval_ms = int(max(rules.interval_ms, rules.interval_ms_max) * (1 + rules.jitter))
    # Ages may begin anew with the last takeover; the longest immunity is a minute. Permits are few,
    # perhaps one, and a producer that hangs holds it for the whole time of an answer: then they are
    # all asked one after the other.
    in_turn_ms = life.plan.transaction_count * (rules.count_max + 1) * 15_000
    longest_ms = 60_000 + max((rules.count_max + 5) * (interval_ms + 20_000), in_turn_ms)
    since_ms = max(life.calm_ms, began_ms, life.takeover_ms[-1])
    late_ms = ended_ms - since_ms - longest_ms
    assert late_ms <= 0, f"I3: {story.identity[1]} is decided {late_ms} ms too late"


# -- checks ---------------------------------------------------------------------------------------


def _judge_checks(account: Account) -> None:
    by_life: dict[tuple[Identity, int], list[Sent]] = defaultdict(list)
    for sent in account.life.sent:
        by_life[sent.identity, sent.life].append(sent)
    for (identity, count), sents in by_life.items():
        story = account.stories[identity]
        life = story.lives[count]
        _judge_numbers(account, story, life, sents)
        _judge_times(account, story, life, sents)
        _judge_age(account, story, life, sents)
    for story in account.stories.values():
        for life in story.lives:
            _judge_giving_up(account, story, life, by_life[story.identity, life.count])


def _judge_numbers(account: Account, story: Story, life: OneLife, sents: list[Sent]) -> None:
    """1, 2, 3: the next only when the last was delivered, never more than allowed."""
    name, highest = story.identity[1], 0
    for place, sent in enumerate(sents):
        assert highest <= sent.number <= highest + 1, f"I3: {name} {sent} after {highest}"
        if sent.number > highest and highest:
            before = [s for s in sents[:place] if s.number == highest]
            assert _is_used_up(before, sent.sent_ms), f"I3: {name} {highest} was not delivered"
        highest = max(highest, sent.number)
        assert any(
            half.check_count == sent.number
            and account.true_ms(HALF, half.half_offset) <= sent.sent_ms
            for half in life.halves
        ), f"I3: {name} {sent} is not in the log"
        assert highest <= account.life.plan.rules.count_max, f"I3: {name} is asked too often"
        own = {half.half_offset for half in life.halves}
        marks = [d for d in story.done if d.ending != COPIED and own & set(d.half_offsets)]
        if marks:
            ended_ms = account.true_ms(OP, marks[0].op_offset)
            assert sent.sent_ms <= ended_ms, f"I3: {name} is asked after its end: {sent}"


def _is_used_up(sents: list[Sent], now_ms: int) -> bool:
    if any(s.arrived_ms is not None and s.arrived_ms <= now_ms for s in sents):
        return True
    return sum(s.is_lost for s in sents) >= LOST_MAX


def _judge_times(account: Account, story: Story, life: OneLife, sents: list[Sent]) -> None:
    """Never before the immunity is over, never sooner after the last than configured."""
    the_life, rules = account.life, account.life.plan.rules
    if story.identity in the_life.hastened:
        return
    began_ms = min(account.true_ms(HALF, half.half_offset) for half in life.halves)
    immunity_ms = (
        rules.immunity_ms if life.halves[0].immunity_ms < 0 else life.halves[0].immunity_ms
    )
    first = sents[0]
    if not _is_time_blurred(the_life, began_ms, first.sent_ms):
        early_ms = began_ms + immunity_ms - first.sent_ms
        assert early_ms <= 0, f"I10: {story.identity[1]} is asked {early_ms} ms too early"
    last_of: dict[int, Sent] = {}
    for sent in sents:
        before = last_of.get(sent.number - 1)
        if before is not None and sent.number not in last_of:
            interval_ms = rules.interval_after_ms(story.identity, before.number)
            early_ms = before.sent_ms + interval_ms - sent.sent_ms
            if not _is_time_blurred(the_life, before.sent_ms, sent.sent_ms):
                assert early_ms <= STEP_MS, f"I3: {story.identity[1]} {sent} is {early_ms} ms early"
        last_of[sent.number] = sent


def _is_time_blurred(life: Life, begin_ms: int, end_ms: int) -> bool:
    """A takeover reads ages off broker's stamps and the wall: the earlier of the two counts.

    So one clock that jumps ahead, or is set back, makes nobody older. Two that do may.
    """
    count = life.timeline.count
    jumps = count["broker jumps"] + count["brokers set back"] + bool(life.plan.op_ahead_ms)
    is_blurred = jumps > 1 or (jumps and count["coordinator jumps"])
    return bool(is_blurred) and any(begin_ms <= t <= end_ms for t in life.takeover_ms)


def _judge_age(account: Account, story: Story, life: OneLife, sents: list[Sent]) -> None:
    """Who is too old by all clocks, and could not say what became of it, is not asked again."""
    the_life, count = account.life, account.life.timeline.count
    if count["broker jumps"] or count["coordinator jumps"] or story.identity in the_life.hastened:
        return
    began_ms = min(account.true_ms(HALF, half.half_offset) for half in life.halves)
    before: Sent | None = None
    for sent in sents:
        if before is not None and sent.number > before.number and sent.owner == before.owner:
            # One that is sent again writes nothing: perhaps nobody knew the broker's time yet.
            was_old = before.sent_ms - began_ms >= the_life.plan.rules.age_ms_max
            assert not was_old or before.is_repeat, f"I3: {story.identity[1]} is too old: {sent}"
        if before is None or sent.number > before.number or sent.owner != before.owner:
            before = sent


def _judge_asked(account: Account, name: str, sents: list[Sent], decided_ms: int) -> None:
    """Nobody is given up as too old whom the owner of that moment has neither asked nor had long.

    By true time: no clock makes an owner hasty.
    """
    taken_ms = max(t for t in account.life.takeover_ms if t <= decided_ms)
    if decided_ms - taken_ms >= account.life.plan.rules.age_ms_max:
        return
    asked = [s for s in sents if taken_ms - WAY_MS <= s.sent_ms <= decided_ms]
    assert asked, f"I3: {name} is given up by an owner that has not asked"


def _is_calendar_blurred(life: Life) -> bool:
    """Ages by the calendar go by the half log's stamps, and end where the earlier clock says.

    One clock that is wrong makes nobody older. Two may, and so may one that is set back and right
    again. Even then nobody is given up who was not asked, see `_judge_asked`.
    """
    count = life.timeline.count
    return count["broker jumps"] + bool(count["coordinator jumps"]) > 1


def _judge_giving_up(account: Account, story: Story, life: OneLife, sents: list[Sent]) -> None:
    """Only who was asked as often as allowed, or is too old, and not while an answer may come."""
    the_life, rules = account.life, account.life.plan.rules
    for decision in story.decisions:
        is_here = life.fence < decision.op_offset < life.until
        if decision.source is not ResolutionSource.POLICY or not is_here:
            continue
        asked_ms = account.true_ms(OP, decision.op_offset)
        last = [s for s in sents if s.number == rules.count_max and s.sent_ms <= asked_ms]
        if not _is_used_up(last, asked_ms):
            _judge_asked(account, story.identity[1], sents, asked_ms)
        began_ms = min(account.true_ms(HALF, half.half_offset) for half in life.halves)
        is_blurred = _is_calendar_blurred(the_life) or _is_time_blurred(
            the_life, began_ms, asked_ms
        )
        if asked_ms - began_ms >= rules.age_ms_max or is_blurred:
            continue
        name = story.identity[1]
        assert last, f"I3: {name} is given up after {len(sents)} checks, and young"
        assert _is_used_up(last, asked_ms), f"I3: {name} is given up, {last[0]} never arrived"
        if story.identity not in the_life.hastened:
            interval_ms = rules.interval_after_ms(story.identity, rules.count_max)
            waited_ms = asked_ms - last[0].sent_ms + STEP_MS
            assert waited_ms >= interval_ms, f"I3: {name} is given up too soon"
