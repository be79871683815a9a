"""Both judges see everything that can go wrong: each class of loss, done on purpose, by seed.

`halfhitch verify` and the checker of the fault runs look at the same spoiled logs. A class that
nothing in the logs can tell of must be one that verify itself says it does not judge.
"""

from __future__ import annotations

import random

import pytest

from chaos.kit.losing import RULES, judged, played
from chaos.kit.losses import LOSSES
from chaos.kit.played import check_played
from chaos.losses import COUNT, FILE, recorded
from halfhitch.verify.report import Kind, Unjudged
from halfhitch.verify.run import verify
from harness.verify_logs import WorldLogs

SEEDS = 4


@pytest.fixture
def seeds(rng: random.Random) -> list[int]:
    """Their own seeds are printed by whoever fails."""
    return [rng.randrange(2**32) for _ in range(SEEDS)]


def test_nothing_is_wrong_with_what_nobody_has_spoiled(seeds: list[int]) -> None:
    for seed in seeds:
        world = played(seed)
        report = check_played(world)
        assert not report.violations, (seed, str(report))
        assert not report.doubts, (seed, str(report))
        findings = verify(WorldLogs(world, patience=60), rules=RULES).findings
        assert findings.is_clean, (seed, findings.violations)
        assert not findings.unjudged, (seed, findings.unjudged)
        assert report.counters["committed"] == findings.endings["committed"] > 0


@pytest.mark.parametrize("name", LOSSES)
def test_what_is_seeded_is_found(name: str, seeds: list[int]) -> None:
    loss = LOSSES[name]
    for seed in seeds:
        result = judged(name, seed)
        assert result.checked & loss.checker, result.told
        if loss.blind:
            assert not result.found, result.told
            continue
        assert not result.is_clean, result.told
        kinds = {wanted for wanted in loss.verify if isinstance(wanted, Kind)}
        if kinds == loss.verify:
            assert result.found, result.told
            assert set(result.findings.violation_counts) & kinds, result.told
        else:
            assert result.found or result.not_judged, result.told


def test_every_kind_of_violation_and_every_doubt_about_a_loss_is_seeded() -> None:
    wanted = {one for loss in LOSSES.values() for one in loss.verify}
    assert {one for one in wanted if isinstance(one, Kind)} == set(Kind)
    assert {Unjudged.TARGET_TRIMMED, Unjudged.TARGET_COMPACTED, Unjudged.LEFT_OUT} <= wanted
    assert sum(bool(loss.blind) for loss in LOSSES.values()) == 2


def test_the_record_is_of_these_classes() -> None:
    found = recorded()
    assert list(found) == list(LOSSES), f"make {FILE.name} anew: python chaos/losses.py"
    for name, row in found.items():
        assert row["seeded"] == COUNT
        assert row["checker"] == COUNT, name
        told = row["found"] + row["not_judged"]
        assert told == (0 if LOSSES[name].blind else COUNT), name
