"""Who was refused, and who is known, as metrics: read when somebody looks."""

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from halfhitch.access import Numbers
from halfhitch.observability.table import METRICS

#: Else the first refusal would be no increase to whoever watches.
_FROM_THE_START: Final = {"http": 0, "admin": 0}


class AccessCollector(Collector):
    """Silent until it is told whom to ask. Without identities it shows none of theirs."""

    def __init__(self) -> None:
        self.source: Callable[[], Numbers] | None = None

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        if self.source is None:
            return
        numbers = self.source()
        unauthorized = _counter("halfhitch_unauthorized_total")
        for door, count in {**_FROM_THE_START, **numbers.unauthorized}.items():
            unauthorized.add_metric([door], count)
        yield unauthorized
        if not numbers.has_identities:
            return
        forbidden = _counter("halfhitch_forbidden_total")
        for labels, count in numbers.forbidden.items():
            forbidden.add_metric(list(labels), count)
        yield forbidden
        too_many = _counter("halfhitch_too_many_requests_total")
        for name, count in numbers.too_many.items():
            too_many.add_metric([name], count)
        yield too_many
        for name, value in (
            ("halfhitch_identities", numbers.identity_count),
            ("halfhitch_identities_file_broken", int(numbers.is_file_broken)),
        ):
            yield GaugeMetricFamily(name, METRICS[name].help, value=value)


def _counter(name: str) -> CounterMetricFamily:
    row = METRICS[name]
    return CounterMetricFamily(name.removesuffix("_total"), row.help, labels=row.labels)
