"""What the benchmark of the audit writes is an installation that verify finds clean."""

from __future__ import annotations

from collections import Counter

from bench.spark_audit import PARTITIONS, TARGETS, records
from halfhitch.verify.account import Account, Layout
from halfhitch.verify.judge import judge
from halfhitch.wire.topics import InternalTopics
from harness.verify_world import BY_BROKER, Stored


def test_its_records_are_those_of_committed_transactions() -> None:
    names = InternalTopics("p.")
    targets = {"p." + name: PARTITIONS for name in TARGETS}
    account = Account(Layout(names.half, names.op, names.parked, targets))
    ends: Counter[tuple[str, int]] = Counter()
    count = 0
    for count, one in enumerate(records(250, "p."), 1):
        place = one.topic, one.partition
        at, ends[place] = ends[place], ends[place] + 1
        record = Stored(place, at, 1_000 + count, one.key, one.value, one.headers, BY_BROKER)
        account.take([record])
    findings = judge(account)
    assert findings.is_clean, findings.violations
    assert (findings.ended, findings.judged, findings.committed_judged) == (250, 250, 250)
    assert findings.forwards_judged == account.compared == 500
    assert not findings.unjudged
    assert not account.garbage
    assert 250 * 5 <= count < 250 * 5.1
