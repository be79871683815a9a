"""Reading the real topics with Spark so that only committed messages are seen.

Owns the options of Spark's Kafka source. Invariant: `read_committed` always sets
`kafka.isolation.level=read_committed` (Spark's own default shows records of aborted and of open
Kafka transactions) and `includeHeaders=true`, and no option can undo either.

What a message's columns mean is in `columns`. Offsets of a query live in its checkpoint.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from halfhitch.errors import ConfigurationError
from halfhitch_spark.columns import message_columns
from halfhitch_spark.session import connector_package

OptionValue = str | int | bool

_LEGAL_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_WHY_ISOLATION: Final = (
    "with any other level Spark shows messages of aborted and unfinished Kafka transactions, which "
    "were never sent as far as the producer is concerned. Leave the option out; a test that wants "
    "to see what is hidden calls dangerously_read_uncommitted()"
)
_WHY_HEADERS: Final = (
    "transaction id, producer group and born time are read from the headers. Leave the option out"
)
#: Lower case, as Spark compares the names of options: required value, and why.
_FIXED: Final = {
    "kafka.isolation.level": ("read_committed", _WHY_ISOLATION),
    "includeheaders": ("true", _WHY_HEADERS),
}
_ARGUMENTS: Final = {
    "kafka.bootstrap.servers": "bootstrap",
    "subscribe": "topics",
    "subscribepattern": "topics",
    "assign": "topics",
    "startingoffsets": "starting",
}


def read_committed(
    spark: SparkSession,
    bootstrap: str,
    topics: str | Iterable[str],
    *,
    streaming: bool = False,
    starting: str = "earliest",
    options: Mapping[str, OptionValue] | None = None,
) -> DataFrame:
    """The committed messages of one or more topics, each exactly once; columns: `message_columns`.

    `starting` is `earliest`, `latest` or Spark's JSON of offsets per partition, and counts only
    where a query has no checkpoint yet. `options` are further options of Spark's Kafka source
    (`maxOffsetsPerTrigger`, `kafka.security.protocol`, ...). ConfigurationError for one that would
    undo what this function promises.
    """
    given = dict(options or {})
    for name, value in given.items():
        _refuse_unsafe(name, value)
    return _read(
        spark,
        bootstrap,
        topics,
        "read_committed",
        streaming=streaming,
        starting=starting,
        options=given,
    )


def dangerously_read_uncommitted(
    spark: SparkSession,
    bootstrap: str,
    topics: str | Iterable[str],
    *,
    streaming: bool = False,
) -> DataFrame:
    """Also what must NOT be seen: records of aborted and of open Kafka transactions.

    For tests and inspection only, to prove that there was something to hide. A job that reads this
    way counts messages that were never sent and others twice.
    """
    return _read(
        spark,
        bootstrap,
        topics,
        "read_uncommitted",
        streaming=streaming,
        starting="earliest",
        options={},
    )


def _read(
    spark: SparkSession,
    bootstrap: str,
    topics: str | Iterable[str],
    isolation_level: str,
    *,
    streaming: bool,
    starting: str,
    options: Mapping[str, OptionValue],
) -> DataFrame:
    everything: dict[str, OptionValue] = {
        **options,
        "kafka.bootstrap.servers": bootstrap,
        "kafka.isolation.level": isolation_level,
        "includeHeaders": "true",
        "subscribe": ",".join(_topic_names(topics)),
        "startingOffsets": starting,
    }
    source = spark.readStream if streaming else spark.read
    try:
        kafka = source.format("kafka").options(**everything).load()
    except AnalysisException as problem:
        if "Failed to find data source: kafka" not in str(problem):
            raise
        raise ConfigurationError(
            "this Spark session has no Kafka connector. Start it with "
            f"spark.jars.packages={connector_package()} (or --packages with spark-submit)"
        ) from problem
    return message_columns(kafka)


def _topic_names(topics: str | Iterable[str]) -> list[str]:
    names = [topics] if isinstance(topics, str) else list(topics)
    if not names:
        raise ConfigurationError("no topic to read: name at least one")
    for name in names:
        if not _LEGAL_TOPIC.fullmatch(name):
            raise ConfigurationError(
                f"{name!r} is no topic name (letters, digits, '.', '_' and '-'); "
                "give several topics as a list, not as one string"
            )
    return names


def _refuse_unsafe(name: str, value: OptionValue) -> None:
    folded = name.lower()
    if folded in _ARGUMENTS:
        raise ConfigurationError(
            f"option {name}: use the argument {_ARGUMENTS[folded]!r} of read_committed instead"
        )
    if folded in _FIXED:
        required, why = _FIXED[folded]
        if str(value).lower() != required:
            raise ConfigurationError(f"option {name}={value}: it must be {required}, because {why}")
