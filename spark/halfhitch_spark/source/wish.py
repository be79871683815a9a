"""What the options of the source ask for. Pure: nobody is asked anything here.

The names are those of Spark's Kafka source, where that has the same; what it would not do as asked
is refused, never passed over.
"""

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from halfhitch.errors import ConfigurationError
from halfhitch_spark.kafka_topics import Choice, Topic
from halfhitch_spark.options import require_promised, topic_names

#: Topic and partition.
Place = tuple[str, int]

EARLIEST: Final = -2
LATEST: Final = -1

_KAFKA: Final = "kafka."
_BOOTSTRAP: Final = "kafka.bootstrap.servers"
_KNOWN: Final = (
    *("subscribe", "subscribePattern", "startingOffsets", "startingTimestamp", "endingOffsets"),
    *("endingTimestamp", "failOnDataLoss", "includeHeaders"),
)
#: Of Spark's Kafka source.
_ONLY_CONNECTOR: Final = frozenset(
    name.lower()
    for name in (
        *("assign", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"),
        *("minPartitions", "maxRecordsPerPartition", "groupIdPrefix"),
        *("startingOffsetsByTimestamp", "endingOffsetsByTimestamp"),
        *("startingOffsetsByTimestampStrategy", "kafkaConsumer.pollTimeoutMs"),
        *("fetchOffset.numRetries", "fetchOffset.retryIntervalMs"),
    )
)
#: librdkafka's, which this source has values of its own for.
_FIXED_CLIENT: Final = frozenset(
    {
        *("enable.auto.commit", "enable.auto.offset.store", "auto.offset.reset"),
        *("enable.partition.eof", "allow.auto.create.topics"),
    }
)


@dataclass(frozen=True, slots=True)
class Edge:
    """Where reading begins or ends: at a moment, or `other` where no offset is given."""

    other: int
    at_ms: int | None = None
    given: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    def offsets(self, found: Mapping[str, Topic]) -> dict[Place, int]:
        """Of each partition; EARLIEST and LATEST among them. ConfigurationError: there is none."""
        for name, told in self.given.items():
            if name not in found:
                raise ConfigurationError(f"offsets are given for {name}, which is not read")
            for partition in told:
                if not 0 <= partition < found[name].partition_count:
                    raise ConfigurationError(
                        f"{name} has no partition {partition}: it has {found[name].partition_count}"
                    )
        return {
            place: self.given.get(place[0], {}).get(place[1], self.other) for place in places(found)
        }


@dataclass(frozen=True, slots=True)
class Wish:
    """All that the options say. `client` is for librdkafka."""

    client: Mapping[str, str]
    choice: Choice
    starting: Edge
    ending: Edge
    accept_data_loss: bool


def places(found: Mapping[str, Topic]) -> list[Place]:
    """All partitions of these topics."""
    return [(name, p) for name in sorted(found) for p in range(found[name].partition_count)]


def wish_of(options: Mapping[str, str], *, streaming: bool) -> Wish:
    """ConfigurationError for what is missing, unknown, or would undo what the source promises."""
    given = {name.lower(): value for name, value in options.items()}
    _require_known(given)
    require_promised({name: value for name, value in given.items() if name != "failondataloss"})
    if _BOOTSTRAP not in given:
        raise ConfigurationError(f"say where Kafka is: option {_BOOTSTRAP}")
    if streaming and {"endingoffsets", "endingtimestamp"} & given.keys():
        raise ConfigurationError("a stream has no end: leave endingOffsets and endingTimestamp out")
    client = {
        name.removeprefix(_KAFKA): value
        for name, value in given.items()
        if name.startswith(_KAFKA) and name != "kafka.isolation.level"
    }
    for name in _FIXED_CLIENT & client.keys():
        raise ConfigurationError(f"option kafka.{name} is the source's own: leave it out")
    return Wish(
        client,
        _choice(given),
        _edge(given, "starting", EARLIEST),
        _edge(given, "ending", LATEST),
        accept_data_loss=not _yes(given, "failondataloss", default=True),
    )


def _require_known(given: Mapping[str, str]) -> None:
    known = {name.lower(): name for name in _KNOWN}
    for name in given:
        if name in known or name.startswith(_KAFKA):
            continue
        if name in _ONLY_CONNECTOR:
            raise ConfigurationError(
                f"option {name}: only Spark's Kafka connector has it; see read_stream and "
                "read_batch"
            )
        close = difflib.get_close_matches(name, known, 1)
        hint = (
            f"; did you mean {known[close[0]]}?" if close else f"; there are: {', '.join(_KNOWN)}"
        )
        raise ConfigurationError(f"there is no option {name}{hint}, and those of Kafka's client")


def _choice(given: Mapping[str, str]) -> Choice:
    names, pattern = given.get("subscribe"), given.get("subscribepattern")
    if (names is None) == (pattern is None):
        raise ConfigurationError("say what to read: option subscribe, or subscribePattern")
    if names is None:
        return Choice(pattern=pattern)
    return Choice(tuple(topic_names([name.strip() for name in names.split(",") if name.strip()])))


def _edge(given: Mapping[str, str], side: str, other: int) -> Edge:
    words, moment = given.get(f"{side}offsets"), given.get(f"{side}timestamp")
    if words is not None and moment is not None:
        raise ConfigurationError(f"give either {side}Offsets or {side}Timestamp")
    if moment is not None:
        if not moment.isdecimal():
            raise ConfigurationError(f"{side}Timestamp is in milliseconds, not {moment!r}")
        return Edge(other, int(moment))
    if words is None:
        return Edge(other)
    if words in ("earliest", "latest"):
        return Edge(EARLIEST if words == "earliest" else LATEST)
    try:
        told = {
            str(name): {int(partition): int(at) for partition, at in partitions.items()}
            for name, partitions in json.loads(words).items()
        }
    except (ValueError, AttributeError, TypeError) as problem:
        raise ConfigurationError(
            f"{side}Offsets is earliest, latest, or offsets as "
            f'{{"topic":{{"0":17}}}}, not {words!r}'
        ) from problem
    return Edge(other, given=told)


def _yes(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    said = given.get(name)
    if said is None:
        return default
    if said.lower() not in ("true", "false"):
        raise ConfigurationError(f"option {name} is true or false, not {said!r}")
    return said.lower() == "true"
