"""What the door counts."""

from halfhitch.doors.rocketmq.stats import Stats
from halfhitch.wire.remoting import codes


def test_requests_are_named_and_unknown_ones_are_one_line() -> None:
    stats = Stats()
    stats.answered(codes.SEND_MESSAGE, codes.SUCCESS)
    stats.answered(codes.SEND_MESSAGE_V2, codes.SUCCESS, 2)
    stats.answered(999, codes.SUCCESS)
    stats.answered(998, codes.SUCCESS)
    stats.answered(codes.HEART_BEAT, codes.SUCCESS, 0)
    assert stats.snapshot().requests == {
        ("send", codes.SUCCESS): 3,
        ("other", codes.SUCCESS): 2,
    }


def test_a_snapshot_does_not_change_any_more() -> None:
    stats = Stats(connection_count=2, in_flight_count=1, native_count=4)
    stats.end_failed("kafka_unavailable")
    stats.producer_refused("full")
    seen = stats.snapshot()
    stats.end_failed("kafka_unavailable")
    stats.producer_refused("full")
    stats.connection_count = 9
    assert seen.failed_one_way_ends == {"kafka_unavailable": 1}
    assert seen.refused_producers == {"full": 1}
    assert (seen.connection_count, seen.in_flight_count, seen.native_count) == (2, 1, 4)
