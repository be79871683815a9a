"""The options of Spark's Kafka source: which are ours, which undo the promise, where to begin.

Pure: nothing here asks Spark or Kafka. Names of options are compared as Spark compares them,
whatever the case of their letters.
"""

import datetime as dt
import json
from collections.abc import Iterable, Mapping
from typing import Final

from halfhitch.errors import ConfigurationError
from halfhitch.wire.topics import is_name
from halfhitch_spark.kafka_topics import Topic

OptionValue = str | int | bool
#: `earliest`, `latest`, a moment, or offsets by topic and partition (others are read from the
#: beginning); Spark's own JSON of offsets is taken as well.
Begin = str | dt.datetime | Mapping[str, Mapping[int, int]]

_WHY_ISOLATION: Final = (
    "with any other level Spark shows messages of aborted and unfinished Kafka transactions, which "
    "were never sent as far as the producer is concerned. Leave the option out; a test that wants "
    "to see what is hidden calls dangerously_read_uncommitted()"
)
_WHY_HEADERS: Final = (
    "transaction id, producer group and born time are read from the headers. Leave the option out"
)
_WHY_LOSS: Final = (
    "else Spark goes on in silence where messages were deleted before it had read them. To go on "
    "all the same, say accept_data_loss=True to read_stream or read_batch"
)
#: Lower case: required value, and why.
_FIXED: Final = {
    "kafka.isolation.level": ("read_committed", _WHY_ISOLATION),
    "includeheaders": ("true", _WHY_HEADERS),
    "failondataloss": ("true", _WHY_LOSS),
}
_ARGUMENTS: Final = {
    "kafka.bootstrap.servers": "bootstrap",
    "subscribe": "topics",
    "subscribepattern": "topics or pattern",
    "assign": "topics",
    "startingoffsets": "starting",
    "startingtimestamp": "starting",
    "startingoffsetsbytimestamp": "starting",
    "startingoffsetsbytimestampstrategy": "starting",
    "endingoffsets": "ending",
    "endingtimestamp": "ending",
    "endingoffsetsbytimestamp": "ending",
}
_EARLIEST: Final = -2


def safe_options(options: Mapping[str, OptionValue] | None) -> dict[str, OptionValue]:
    """These options, if none of them undoes what the reader promises. Else ConfigurationError."""
    given = dict(options or {})
    for name in given:
        folded = name.lower()
        if folded in _ARGUMENTS:
            raise ConfigurationError(
                f"option {name}: use the argument {_ARGUMENTS[folded]!r} instead"
            )
    require_promised(given)
    return given


def require_promised(options: Mapping[str, OptionValue]) -> None:
    """ConfigurationError for an option that would undo what every reader here promises."""
    for name, value in options.items():
        required, why = _FIXED.get(name.lower(), (None, ""))
        if required is not None and str(value).lower() != required:
            raise ConfigurationError(f"option {name}={value}: it must be {required}, because {why}")


def topic_names(topics: str | Iterable[str]) -> list[str]:
    """At least one, each of which a topic can have."""
    names = [topics] if isinstance(topics, str) else list(topics)
    if not names:
        raise ConfigurationError("no topic to read: name at least one")
    for name in names:
        if not is_name(name):
            raise ConfigurationError(
                f"{name!r} is no topic name (letters, digits, '.', '_' and '-'); "
                "give several topics as a list, not as one string"
            )
    return names


def begin_options(starting: Begin, found: Mapping[str, Topic]) -> dict[str, str]:
    """Where a query begins that has no checkpoint yet.

    At a moment, a partition without anything later begins at its end: Spark would refuse to start.
    """
    if isinstance(starting, dt.datetime):
        return {
            "startingTimestamp": _moment(starting),
            "startingOffsetsByTimestampStrategy": "latest",
        }
    return {"startingOffsets": _offsets(starting, found, _EARLIEST)}


def end_options(ending: Begin, found: Mapping[str, Topic]) -> dict[str, str]:
    """Where a batch ends."""
    if isinstance(ending, dt.datetime):
        return {"endingTimestamp": _moment(ending)}
    return {"endingOffsets": _offsets(ending, found, -1)}


def _moment(given: dt.datetime) -> str:
    if given.tzinfo is None:
        raise ConfigurationError(f"{given} has no time zone: give one, for example tzinfo=UTC")
    return str(int(given.timestamp() * 1_000))


def _offsets(
    given: str | Mapping[str, Mapping[int, int]], found: Mapping[str, Topic], other: int
) -> str:
    if isinstance(given, str):
        return given
    unknown = [name for name in given if name not in found]
    if unknown:
        raise ConfigurationError(f"offsets are given for {unknown[0]}, which is not read")
    filled: dict[str, dict[str, int]] = {}
    for name, topic in found.items():
        told = given.get(name, {})
        beyond = [partition for partition in told if not 0 <= partition < topic.partition_count]
        if beyond:
            raise ConfigurationError(
                f"{name} has no partition {beyond[0]}: it has {topic.partition_count}"
            )
        filled[name] = {str(p): told.get(p, other) for p in range(topic.partition_count)}
    return json.dumps(filled)
