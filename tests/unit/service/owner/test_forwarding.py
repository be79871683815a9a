"""What a step's forwards become when a target does not take them, as an owner writes them."""

from __future__ import annotations

import pytest

from halfhitch.adapters.memory import WriteFault
from halfhitch.core.model import Resolution
from halfhitch.core.standing import Standing
from halfhitch.service.owner.turn import OutcomeLostError, StepFailedError
from halfhitch.wire.half import HalfRecord, system_headers
from halfhitch.wire.parked import Parked, read_parked
from harness.twin import GROUP, INSTANCE, PARKED, Twin, identity
from harness.twin import turn_until_idle as finish


def parked(twin: Twin) -> list[tuple[bytes | None, Parked]]:
    """Value and reason of each record on the parked topic."""
    result = []
    for record in twin.kafka.committed(PARKED):
        why = read_parked(record.offset(), record.headers())
        assert isinstance(why, Parked), why
        result.append((record.value(), why))
    return result


@pytest.mark.parametrize(
    "topic", ["__consumer_offsets", "RMQ_SYS_TRANS_HALF_TOPIC", PARKED, "not a name", "secret"]
)
def test_a_forged_half_with_a_forbidden_target_is_parked_and_stops_nobody(topic: str) -> None:
    twin = Twin(allow=("orders", "points", "__*", "RMQ*", "TRANS*"))
    owner = twin.working_owner()
    twin.half("forged", topic=topic, value=b"forged")
    twin.half("T1")
    twin.decide(Resolution.COMMIT, "forged", "T1", reason="it was paid")
    finish(owner)
    assert twin.values() == [b"value"]
    assert len(twin.kafka.committed(twin.kafka.half_topic)) == 2
    ((value, why),) = parked(twin)
    assert (value, why.reason, why.half_offset, why.decision) == (
        b"forged",
        "undeliverable",
        0,
        "c",
    )
    assert (why.decision_reason, why.decision_source) == ("it was paid", "producer")
    assert owner.standing(identity("forged"), 0) is Standing.PARKED
    assert twin.observer.of("parked") == [(1, 1)]


def test_a_forged_half_whose_target_does_not_parse_is_parked() -> None:
    twin = Twin()
    owner = twin.working_owner()
    headers = system_headers(HalfRecord("forged", GROUP, 0, 0, INSTANCE, "orders"))
    headers[3] = ("REAL_TOPIC", b"\xff")
    twin.kafka.append(twin.kafka.half_topic, 0, None, b"x", headers)
    twin.commit("forged")
    finish(owner)
    assert twin.written_values() == []
    assert [value for value, _ in parked(twin)] == [b"x"]


def test_a_forged_half_that_is_rolled_back_is_just_dropped() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.half("forged", topic="__consumer_offsets")
    twin.roll_back("forged")
    finish(owner)
    assert parked(twin) == []
    assert twin.done_ids() == ["forged"]


def test_all_messages_of_an_undeliverable_transaction_are_parked_together() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.half("T1", key=b"k", value=b"deliverable", headers=[("a", b"1")])
    twin.half("T1", index=1, topic="gone", value=b"undeliverable")
    twin.half("T2", value=b"another")
    twin.commit("T1", covered=2)
    twin.commit("T2")
    finish(owner)
    assert twin.values() == [b"another"]
    by_offset = {why.half_offset: (value, why) for value, why in parked(twin)}
    assert [by_offset[n][0] for n in range(2)] == [b"deliverable", b"undeliverable"]
    assert all("gone" in why.detail for _, why in parked(twin))
    (keyed,) = [record for record in twin.kafka.committed(PARKED) if record.key() is not None]
    assert (keyed.key(), (keyed.headers() or [])[-2]) == (b"k", ("a", b"1"))
    assert twin.stored()[0] == 3, "it holds nothing up"


def test_a_parked_transaction_stays_parked_after_a_takeover_and_repeated_decisions() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.half("T1", topic="gone")
    twin.commit("T1")
    finish(owner)
    twin.kafka.create_topic("gone")
    for name in (twin.kafka.half_topic, twin.kafka.op_topic):
        twin.kafka.store_position(name, 0, None)
    second = twin.working_owner()
    twin.commit("T1")
    twin.half("T1", topic="gone")
    finish(second)
    assert second.standing(identity("T1"), 0) is Standing.PARKED
    assert len(parked(twin)) == 1
    assert twin.values("gone") == []


def test_one_record_too_large_is_found_among_many_and_only_it_is_parked() -> None:
    twin = Twin()
    twin.kafka.record_bytes_max["points"] = 1_000
    owner = twin.working_owner()
    for n in range(100):
        value = bytes(2_000) if n == 37 else b"%d" % n
        twin.half(f"T{n}", topic="points", value=value)
    twin.commit(*[f"T{n}" for n in range(100)])
    finish(owner)
    assert twin.values("points") == [b"%d" % n for n in range(100) if n != 37]
    assert [value for value, _ in parked(twin)] == [bytes(2_000)]
    failures = [call for call in twin.observer.of("kafka_transaction") if call[1] == "fail"]
    assert 1 <= len(failures) <= 10, "halved, not tried one by one"
    assert len(twin.observer.of("kafka_transaction")) < 40, "and grown again"


def test_what_fails_for_another_reason_is_never_parked() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.half("T1")
    twin.commit("T1")
    twin.kafka.faults.writes = [WriteFault.ABORTED] * 4
    for _ in range(4):
        with pytest.raises(StepFailedError):
            owner.turn(0.0)
    finish(owner)
    assert twin.values() == [b"value"]
    assert parked(twin) == []


def test_an_undeliverable_one_is_parked_once_although_steps_fail_meanwhile() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.half("bad", topic="gone", value=b"bad")
    twin.half("good", value=b"good")
    twin.commit("bad", "good")
    twin.kafka.faults.writes = [WriteFault.ABORTED, None, WriteFault.COMMITTED_UNSEEN]
    for _ in range(10):
        try:
            finish(owner)
        except StepFailedError:
            continue
        except OutcomeLostError:
            owner = twin.working_owner()
    assert twin.values() == [b"good"]
    assert [value for value, _ in parked(twin)] == [b"bad"]
