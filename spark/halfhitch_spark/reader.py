"""Reading the real topics with Spark so that only committed messages are seen.

Invariant: every reader here but the one whose name says so sets
`kafka.isolation.level=read_committed` (Spark's own default shows records of aborted and of open
Kafka transactions) and `includeHeaders=true`, and no option can undo either.

`read_stream` and `read_batch` ask Kafka first: whether the topics are there, and whether they are
the ones that the checkpoint was begun with. `read_committed` asks nobody.

What a message's columns mean is in `columns`. Offsets of a query live in its checkpoint.
"""

from collections.abc import Callable, Iterable, Mapping

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from halfhitch.errors import ConfigurationError
from halfhitch_spark.columns import message_columns
from halfhitch_spark.hiding import hide_secrets
from halfhitch_spark.kafka_topics import Choice, Topic, find_topics, require_same_topics
from halfhitch_spark.later_topics import note_later_topics
from halfhitch_spark.options import (
    Begin,
    OptionValue,
    begin_options,
    end_options,
    safe_options,
    topic_names,
)
from halfhitch_spark.payloads import Payload, with_payload
from halfhitch_spark.session import no_connector


def read_stream(
    spark: SparkSession,
    bootstrap: str,
    topics: str | Iterable[str] = (),
    *,
    checkpoint: str | None,
    pattern: str | None = None,
    starting: Begin = "earliest",
    messages_per_batch: int | None = None,
    payload: Payload | None = None,
    accept_data_loss: bool = False,
    options: Mapping[str, OptionValue] | None = None,
) -> DataFrame:
    """The committed messages of these topics as a stream; columns: `message_columns`.

    `checkpoint` is the query's own `checkpointLocation`: the ids of the topics are kept there, and
    a topic that was made anew is refused. None is for a query without one. `topics` or `pattern`
    (Java's, of the whole name) say what is read. `starting` counts where there is no checkpoint
    yet. `messages_per_batch` bounds a micro-batch (in offsets: markers count). With `payload` come
    the columns `payload` and `dead_letter`. `accept_data_loss` goes on where Kafka deleted messages
    that were not read. ConfigurationError and KafkaUnavailable say what is wrong before a query
    begins.
    """
    given = _checked(options, accept_data_loss=accept_data_loss)
    choice = _choice(topics, pattern)
    found = _found(spark, bootstrap, given, choice)
    if checkpoint is not None:
        require_same_topics(spark, checkpoint, found, accept_gone=accept_data_loss)
        if pattern is not None:
            note_later_topics(spark, checkpoint, bootstrap, given)
    if messages_per_batch is not None:
        given["maxOffsetsPerTrigger"] = messages_per_batch
    given |= begin_options(starting, found)
    return _shown(_load(spark, bootstrap, choice, "read_committed", given, streaming=True), payload)


def read_batch(
    spark: SparkSession,
    bootstrap: str,
    topics: str | Iterable[str] = (),
    *,
    pattern: str | None = None,
    starting: Begin = "earliest",
    ending: Begin = "latest",
    payload: Payload | None = None,
    accept_data_loss: bool = False,
    options: Mapping[str, OptionValue] | None = None,
) -> DataFrame:
    """The committed messages that are there now, or between `starting` and `ending`."""
    given = _checked(options, accept_data_loss=accept_data_loss)
    choice = _choice(topics, pattern)
    found = _found(spark, bootstrap, given, choice)
    given |= begin_options(starting, found) | end_options(ending, found)
    loaded = _load(spark, bootstrap, choice, "read_committed", given, streaming=False)
    return _shown(loaded, payload)


def same_topics(
    each: Callable[[DataFrame, int], None],
    bootstrap: str,
    topics: str | Iterable[str] = (),
    *,
    checkpoint: str,
    pattern: str | None = None,
    options: Mapping[str, OptionValue] | None = None,
) -> Callable[[DataFrame, int], None]:
    """`each`, for `foreachBatch`, called only while the topics are those of the checkpoint.

    A topic that is made anew while the query runs ends it before the batch is given away.
    """
    given, choice = safe_options(options), _choice(topics, pattern)

    def looked_at(batch: DataFrame, number: int) -> None:
        spark = batch.sparkSession
        found = _found(spark, bootstrap, given, choice)
        # Of a topic that is gone Spark itself speaks, unless that was accepted.
        require_same_topics(spark, checkpoint, found, accept_gone=True)
        each(batch, number)

    return looked_at


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
    undo what this function promises. Kafka is not asked: see `read_stream`.
    """
    given: dict[str, OptionValue] = {**safe_options(options), "startingOffsets": starting}
    choice = Choice(tuple(topic_names(topics)))
    return message_columns(
        _load(spark, bootstrap, choice, "read_committed", given, streaming=streaming)
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
    choice = Choice(tuple(topic_names(topics)))
    given: dict[str, OptionValue] = {"startingOffsets": "earliest"}
    return message_columns(
        _load(spark, bootstrap, choice, "read_uncommitted", given, streaming=streaming)
    )


def _checked(
    options: Mapping[str, OptionValue] | None, *, accept_data_loss: bool
) -> dict[str, OptionValue]:
    given = safe_options(options)
    if accept_data_loss:
        given = {name: value for name, value in given.items() if name.lower() != "failondataloss"}
        given["failOnDataLoss"] = "false"
    return given


def _choice(topics: str | Iterable[str], pattern: str | None) -> Choice:
    if pattern is None:
        return Choice(tuple(topic_names(topics)))
    if topics:
        raise ConfigurationError("give either topics or a pattern")
    return Choice(pattern=pattern)


def _found(
    spark: SparkSession, bootstrap: str, given: Mapping[str, OptionValue], choice: Choice
) -> dict[str, Topic]:
    plain = {name: str(value) for name, value in given.items()}
    return find_topics(spark, bootstrap, plain, choice)


def _shown(kafka: DataFrame, payload: Payload | None) -> DataFrame:
    messages = message_columns(kafka)
    return messages if payload is None else with_payload(messages, payload)


def _load(
    spark: SparkSession,
    bootstrap: str,
    choice: Choice,
    isolation_level: str,
    options: Mapping[str, OptionValue],
    *,
    streaming: bool,
) -> DataFrame:
    what = (
        {"subscribe": ",".join(choice.names)}
        if choice.pattern is None
        else {"subscribePattern": choice.pattern}
    )
    everything: dict[str, OptionValue] = {
        **options,
        "kafka.bootstrap.servers": bootstrap,
        "kafka.isolation.level": isolation_level,
        "includeHeaders": "true",
        **what,
    }
    hide_secrets(spark, options)
    source = spark.readStream if streaming else spark.read
    try:
        return source.format("kafka").options(**everything).load()
    except AnalysisException as problem:
        if "Failed to find data source: kafka" not in str(problem):
            raise
        raise no_connector() from problem
