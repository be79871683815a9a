"""From a scene that has come to rest to a verdict: last readings, limits, the checker.

Owns `judge`. The checker knows nothing of scenarios; what a fault lawfully changes (a topic that
was deleted, positions that were set back) is told to it here and nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos.kit.checker import REQUIRED, Limits, Readings, Report, check
from chaos.kit.history import read_history
from chaos.kit.log_model import LogModel, identity_and_index
from chaos.kit.open_transactions import open_transactions
from chaos.kit.readers import held_partitions, read_final
from chaos.kit.stage import (
    CHECKS_MAX,
    IMMUNITY_S,
    INTERVAL_S,
    TARGET_PARTITIONS,
    TRANSACTION_TIMEOUT_MS,
)

if TYPE_CHECKING:
    from chaos.kit.history import Identity, Truth
    from chaos.kit.readers import Seen
    from chaos.kit.scenarios import Scenario
    from chaos.kit.stage import Scene

#: A reader of a target may be held by an owner's Kafka transaction for so long beyond its timeout.
HOLD_BEYOND_MS = 12_000
HOLD_MS_MAX = TRANSACTION_TIMEOUT_MS + HOLD_BEYOND_MS

_READ_S = 60.0


def judge(scene: Scene, scenario: Scenario) -> Report:
    """The applications are closed and nothing is under way: read everything and judge."""
    names = scene.names
    lost = {scene.prefix + name for name in scenario.lost_targets}
    targets = [topic for topic in scene.targets if topic not in lost]
    scene.logs.wait_for_the_end(_READ_S)
    if not lost:
        scene.committed.wait_for_the_end(_READ_S)
    for reader in scene.readers:
        reader.stop()
    bootstrap = scene.stage.kafka.bootstrap
    truths = read_history(scene.histories.glob("*.jsonl"))
    model = LogModel(scene.logs.of(names.half), scene.logs.of(names.op))
    away = _touching(lost, truths, model)
    for identity in away:
        truths.pop(identity, None)
        model.accounts.pop(identity, None)

    def kept(records: list[Seen]) -> list[Seen]:
        return [s for s in records if s.topic not in lost and _identity(s) not in away]

    readings = Readings(
        final=kept(read_final(bootstrap, targets)),
        committed=kept([s for s in scene.committed.records if s.topic != names.parked]),
        uncommitted=kept(scene.uncommitted.records),
        parked=kept(read_final(bootstrap, [names.parked])),
        stalls=[] if lost else [s for s in scene.committed.stalls if s.topic != names.parked],
        open_transactions=[
            *held_partitions(bootstrap, [*targets, names.half, names.op]),
            *open_transactions(bootstrap, prefix=scene.prefix, patience_s=3.0),
        ],
        gaps=scene.logs.gaps,
    )
    limits = Limits(
        check_count_max=CHECKS_MAX,
        immunity_ms=int(IMMUNITY_S * 1000),
        interval_ms=int(INTERVAL_S * 1000),
        stall_ms_max=HOLD_MS_MAX,
        late_ms_max=None if scenario.late_s_max is None else int(scenario.late_s_max * 1000),
        partition_counts={
            topic: TARGET_PARTITIONS for topic in targets if topic not in scene.grown_topics
        },
        refusing_topics=frozenset(scene.targets) if scenario.parks else frozenset(),
        resets_ms=tuple(scene.resets_ms),
        required=(*REQUIRED, "checks", "faults_injected", "takeovers"),
    )
    counters = {
        "faults_injected": len(scene.faults),
        "takeovers": scene.count_in_logs("action=partition_taken_over"),
        "steps_aborted": scene.count_in_logs("action=step_failed"),
        "producers_fenced_anew": scene.count_in_logs("action=producer_suspect"),
        "ended_by_themselves": len(scene.revived),
        "left_out": len(away),
        "contrary_answers": sum(
            asked.error == "contrary_decision" for truth in truths.values() for asked in truth.asked
        ),
    }
    return check(truths, model, readings, scene.sampler.samples, limits, counters)


def _touching(
    lost: set[str], truths: dict[Identity, Truth], model: LogModel
) -> frozenset[Identity]:
    """Transactions with a message for a topic that was destroyed on purpose."""
    if not lost:
        return frozenset()
    found = {
        identity
        for identity, truth in truths.items()
        if any(m.topic in lost for messages in truth.messages.values() for m in messages)
    }
    found |= {half.identity for half in model.halves() if half.message.topic in lost}
    return frozenset(found)


def _identity(seen: Seen) -> Identity | None:
    found = identity_and_index(seen.headers)
    return None if found is None else found[0]
