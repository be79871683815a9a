"""Facts in pieces: many readers and many judges say what one reader and one judge say."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from chaos.kit.losing import LOSSES, RULES, played
from chaos.kit.losses import LOSSES as ALL
from halfhitch.verify.account import Account
from halfhitch.verify.gone import gone
from halfhitch.verify.judge import Witnessed, judge_groups, witness
from halfhitch.verify.pieces import pieces_of, rest_of, transactions_of
from halfhitch.verify.report import Findings
from halfhitch.verify.run import verify
from harness.verified import told
from harness.verify_logs import WorldLogs

if TYPE_CHECKING:
    from halfhitch.verify.account import Layout, Place
    from halfhitch.verify.pieces import Piece
    from harness.verify_world import World

LIMIT = 1_000
assert ALL is LOSSES


def fresh_account(layout: Layout, starts: dict[Place, tuple[int, bool]]) -> Account:
    account = Account(layout)
    for place, (log_offset, is_trimmed) in sorted(starts.items()):
        account.begins(place, log_offset, is_trimmed=is_trimmed)
    return account


def by_many(world: World, compacted: dict[str, int]) -> Findings:
    """Each partition has a reader, which gives pieces away twice; each bucket has a judge."""
    logs = WorldLogs(world, compacted=compacted)
    layout = logs.layout()
    topics = [layout.half_topic, layout.op_topic, layout.parked_topic, *layout.targets]
    starts = {place: found for t in topics for place, found in logs.starts(t, 0).items()}
    whole = fresh_account(layout, starts)
    buckets: dict[int, list[Piece]] = {}
    for place, log in world.logs.items():
        account = fresh_account(layout, starts)
        records = [r for r in log.records[log.start : log.stable_end] if r.state == "visible"]
        middle = len(records) // 2
        account.take(records[:middle])
        found = [*pieces_of(account, (*place, 0))]
        account.take(records[middle:])
        found += rest_of(account, (*place, 1))
        for bucket, piece in found:
            buckets.setdefault(bucket, []).append(piece)
        whole.join(pickle.loads(pickle.dumps(account)))
    whole.unread = logs.unread([t for t in whole.topics if t not in layout.targets])
    seen = Witnessed()
    for pieces in buckets.values():
        seen.join(witness(whole, transactions_of(whole, pieces), RULES))
    findings = Findings(LIMIT)
    for pieces in buckets.values():
        judged = judge_groups(whole, transactions_of(whole, pieces), RULES, seen, limit=LIMIT)
        for one in judged.values():
            findings.join(one)
    half_starts = {p: start for p, (start, _) in starts.items() if p[0] == layout.half_topic}
    ends = logs.ends([layout.half_topic])
    findings.pass_over_gone(gone(whole, half_starts, ends, logs.watermarks()))
    findings.finish()
    return findings


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_many_judges_say_of_each_loss_what_one_says(name: str, rng: random.Random) -> None:
    world = played(rng.randrange(2**32))
    spoiled = LOSSES[name].spoil(world)
    logs = WorldLogs(world, compacted=spoiled.compacted)
    one = verify(logs, rules=RULES, limit=LIMIT).findings
    assert told(by_many(world, spoiled.compacted)) == told(one)


def test_many_judges_say_of_a_world_that_trims_what_one_says(rng: random.Random) -> None:
    world = played(rng.randrange(2**32))
    world.trims = world.trims_targets = True
    world.run(300)
    world.settle()
    one = verify(WorldLogs(world), rules=RULES, limit=LIMIT).findings
    assert told(by_many(world, {})) == told(one)


def test_findings_that_are_joined_keep_to_their_limit(rng: random.Random) -> None:
    world = played(rng.randrange(2**32))
    LOSSES["a whole topic"].spoil(world)
    found = verify(WorldLogs(world), rules=RULES, limit=LIMIT).findings
    short = Findings(2)
    short.join(found)
    short.join(found)
    short.finish()
    assert max(Counter(v.kind for v in short.violations).values()) == 2
    assert short.violation_counts == found.violation_counts + found.violation_counts
