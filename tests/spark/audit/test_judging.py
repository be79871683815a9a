"""Judging by bucket: each class of loss is told as verify tells it, whoever has read what."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from chaos.kit.losing import LOSSES, RULES, a_life, played
from chaos.kit.losses import LOSSES as ALL
from halfhitch.verify.report import Findings, Kind, Verdict
from halfhitch.verify.run import verify
from harness.spark_audit import OWN, by_spark
from harness.verify_logs import WorldLogs

assert ALL is LOSSES


def told(findings: Findings) -> Counter[str]:
    """Everything of each, with the names that the world has for its own topics."""
    text = [repr(one) for one in (*findings.violations, *findings.unfinished)]
    text += [f"{why} {count}" for why, count in findings.unjudged.items()]
    text += [f"{ending} {count}" for ending, count in findings.endings.items()]
    text.append(f"{findings.transactions} {findings.ended} {findings.judged}")
    for mine, theirs in OWN.items():
        text = [line.replace(repr(theirs), repr(mine)) for line in text]
        text = [line.replace(f"on {theirs}", f"on {mine}") for line in text]
    return Counter(text)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_each_loss_is_told_as_verify_tells_it(name: str, rng: random.Random) -> None:
    world = played(rng.randrange(2**32))
    spoiled = LOSSES[name].spoil(world)
    one = verify(WorldLogs(world, compacted=spoiled.compacted), rules=RULES, limit=1_000)
    found = by_spark(world, spoiled.compacted)
    assert told(found.whole) == told(one.findings)


def test_only_one_group_is_judged_where_one_is_asked_for(rng: random.Random) -> None:
    world = played(rng.randrange(2**32))
    both = by_spark(world)
    shop = by_spark(world, group="shop")
    assert set(both.findings) == {"shop", "bill"}
    assert set(shop.findings) == {"shop"}
    assert told(shop.findings["shop"]) == told(both.findings["shop"])
    assert shop.groups == both.groups
    assert shop.verdict(1.0) is Verdict.CLEAN


def test_a_list_ends_at_its_limit_and_the_counts_do_not(rng: random.Random) -> None:
    world = played(rng.randrange(2**32))
    for _ in range(9):
        for record in world.records_of(a_life(world, 1)):
            record.state = "aborted"
    whole = by_spark(world, limit=2).whole
    assert whole.violation_counts[Kind.LOST] == 9
    assert len(whole.violations) == 2
