"""The RocketMQ door's own numbers as metrics: read when somebody looks, not told one by one."""

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from halfhitch.observability.table import METRICS


class Numbers(Protocol):
    """What the door has counted, as of one moment."""

    @property
    def requests(self) -> Mapping[tuple[str, int], int]:
        """By request and response code; both from closed sets."""
        ...

    @property
    def failed_one_way_ends(self) -> Mapping[str, int]:
        """By the code of the error."""
        ...

    @property
    def refused_producers(self) -> Mapping[str, int]:
        """By what there was too little of."""
        ...

    @property
    def busy_answers(self) -> Mapping[str, int]:
        """By what there was too much of."""
        ...

    @property
    def in_flight_bytes(self) -> int:
        """Held by what is under way, but for native threads."""
        ...

    @property
    def native_count(self) -> int:
        """Of the requests, those that native threads carried out."""
        ...

    @property
    def connection_count(self) -> int:
        """Open now."""
        ...

    @property
    def producer_count(self) -> int:
        """Registered now."""
        ...

    @property
    def in_flight_count(self) -> int:
        """Under way now."""
        ...


class RocketmqCollector(Collector):
    """Silent until it is told whom to ask."""

    def __init__(self) -> None:
        self.source: Callable[[], Numbers] | None = None

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        if self.source is None:
            return
        numbers = self.source()
        requests = _counter("halfhitch_rocketmq_requests_total")
        for (request, code), count in numbers.requests.items():
            requests.add_metric([request, str(code)], count)
        yield requests
        failed = _counter("halfhitch_rocketmq_failed_oneway_ends_total")
        for error_code, count in numbers.failed_one_way_ends.items():
            failed.add_metric([error_code], count)
        yield failed
        refused = _counter("halfhitch_rocketmq_refused_producers_total")
        for reason, count in numbers.refused_producers.items():
            refused.add_metric([reason], count)
        yield refused
        busy = _counter("halfhitch_rocketmq_busy_answers_total")
        for reason, count in numbers.busy_answers.items():
            busy.add_metric([reason], count)
        yield busy
        native = _counter("halfhitch_rocketmq_native_requests_total")
        native.add_metric([], numbers.native_count)
        yield native
        for name, value in (
            ("halfhitch_rocketmq_connections", numbers.connection_count),
            ("halfhitch_rocketmq_producers", numbers.producer_count),
            ("halfhitch_rocketmq_in_flight_requests", numbers.in_flight_count),
            ("halfhitch_rocketmq_in_flight_bytes", numbers.in_flight_bytes),
        ):
            yield GaugeMetricFamily(name, METRICS[name].help, value=value)


def _counter(name: str) -> CounterMetricFamily:
    row = METRICS[name]
    return CounterMetricFamily(name.removesuffix("_total"), row.help, labels=row.labels)
