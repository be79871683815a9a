"""The RocketMQ door's own numbers as metrics."""

from halfhitch.doors.rocketmq.stats import Stats
from halfhitch.observability.rocketmq import RocketmqCollector
from halfhitch.observability.table import METRICS
from halfhitch.wire.remoting import codes


def test_it_is_silent_until_it_is_told_whom_to_ask() -> None:
    assert list(RocketmqCollector().collect()) == []


def test_it_tells_what_the_door_has_counted_at_the_time_of_the_look() -> None:
    stats = Stats(connection_count=2, producer_count=3, in_flight_count=4, native_count=5)
    stats.in_flight_bytes = 6
    collector = RocketmqCollector()
    collector.source = stats.snapshot
    list(collector.collect())
    stats.answered(codes.SEND_MESSAGE, codes.SUCCESS, 7)
    stats.end_failed("kafka_unavailable")
    stats.producer_refused("identity")
    stats.busy("bytes")
    found = {s.name: (s.labels, s.value) for f in collector.collect() for s in f.samples}
    assert found == {
        "halfhitch_rocketmq_requests_total": ({"request": "send", "code": "0"}, 7),
        "halfhitch_rocketmq_failed_oneway_ends_total": ({"code": "kafka_unavailable"}, 1),
        "halfhitch_rocketmq_refused_producers_total": ({"reason": "identity"}, 1),
        "halfhitch_rocketmq_busy_answers_total": ({"reason": "bytes"}, 1),
        "halfhitch_rocketmq_native_requests_total": ({}, 5),
        "halfhitch_rocketmq_connections": ({}, 2),
        "halfhitch_rocketmq_producers": ({}, 3),
        "halfhitch_rocketmq_in_flight_requests": ({}, 4),
        "halfhitch_rocketmq_in_flight_bytes": ({}, 6),
    }
    assert set(found) <= set(METRICS)
