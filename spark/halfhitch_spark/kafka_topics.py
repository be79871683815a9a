"""The topics that a job reads: whether they are there, and whether they are still the same ones.

Owns the small file with their ids in the checkpoint's folder. Spark's checkpoints keep offsets and
no topic ids: of a topic that was deleted and made anew, a job that goes on would pass over as many
messages as it had read of the old one, without a word.

Kafka is asked from the driver, with the connector's own client and the source's own options. (The
data source without the connector asks in its own way: source/brokers.py.)
"""

import contextlib
import difflib
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from halfhitch.errors import ConfigurationError, KafkaUnavailable
from halfhitch.wire.topics import InternalTopics
from halfhitch_spark.session import no_connector

#: In the checkpoint's folder, beside Spark's own.
FILE_NAME: Final = "halfhitch-topics.json"
_ANSWER_MS: Final = 30_000
_KAFKA: Final = "kafka."
#: How the names of Half Hitch's own topics end; a prefix is configurable.
_INTERNAL: Final = InternalTopics().reserved
#: A batch and a listener may both find that a topic is new.
_writing: Final = threading.Lock()
#: What a broker without topic ids answers.
NO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"


@dataclass(frozen=True, slots=True)
class Topic:
    """As Kafka has it now."""

    topic_id: str
    partition_count: int


@dataclass(frozen=True, slots=True)
class Choice:
    """What is to be read: these names, or what a pattern (Java's, of the whole name) matches."""

    names: tuple[str, ...] = ()
    pattern: str | None = None


def find_topics(
    spark: SparkSession, bootstrap: str, options: Mapping[str, str], choice: Choice
) -> dict[str, Topic]:
    """The chosen topics, by name. ConfigurationError where there is none, or one not to be read."""
    jvm: Any = spark._jvm  # noqa: SLF001
    with kafka_admin(spark, bootstrap, options) as admin:
        there = sorted(str(name) for name in admin.listTopics().names().get())
        wanted = chosen(there, choice, jvm.java.util.regex.Pattern.matches)
        described = admin.describeTopics(wanted).allTopicNames().get()
        return {
            name: Topic(
                str(described.get(name).topicId().toString()),
                int(described.get(name).partitions().size()),
            )
            for name in wanted
        }


@contextlib.contextmanager
def kafka_admin(spark: SparkSession, bootstrap: str, options: Mapping[str, str]) -> Iterator[Any]:
    """Kafka's own client, with a source's options. KafkaUnavailable for what Kafka refuses."""
    jvm: Any = spark._jvm  # noqa: SLF001
    properties = jvm.java.util.Properties()
    for name, value in options.items():
        if name.lower().startswith(_KAFKA) and ".deserializer" not in name:
            properties.setProperty(name[len(_KAFKA) :], str(value))
    properties.setProperty("bootstrap.servers", bootstrap)
    properties.setProperty("request.timeout.ms", str(_ANSWER_MS // 2))
    properties.setProperty("default.api.timeout.ms", str(_ANSWER_MS))
    try:
        admin = _admin(jvm).create(properties)
        try:
            yield admin
        finally:
            admin.close()
    except Py4JJavaError as problem:
        cause = problem.java_exception.getCause() or problem.java_exception
        raise KafkaUnavailable(
            f"Kafka at {bootstrap} did not say which topics there are: {cause.toString()}. Is the "
            "address right, and may this user describe them?"
        ) from problem


def _admin(jvm: Any) -> Any:
    found = jvm.org.apache.kafka.clients.admin.Admin
    if isinstance(found, JavaPackage):  # what py4j gives for a class that is not there
        raise no_connector()
    return found


def chosen(there: list[str], choice: Choice, matches: Callable[[str, str], bool]) -> list[str]:
    """The names of these topics that are to be read. `matches` takes a pattern and a name."""
    if choice.pattern is None:
        missing = [name for name in choice.names if name not in there]
        if missing:
            raise ConfigurationError(_missing(missing[0], there))
        wanted = list(choice.names)
    else:
        wanted = [name for name in there if matches(choice.pattern, name)]
        if not wanted:
            raise ConfigurationError(
                f"no topic matches the pattern {choice.pattern!r} (it must match the whole name); "
                f"there are: {_named(there)}"
            )
    internal = [name for name in wanted if name.endswith(_INTERNAL)]
    if internal:
        raise ConfigurationError(
            f"{internal[0]} is Half Hitch's own: its records are no messages that were committed. "
            "Read the topics that messages are sent to"
        )
    return wanted


def _missing(name: str, there: list[str]) -> str:
    close = difflib.get_close_matches(name, there, 3)
    hint = f"; did you mean {' or '.join(close)}?" if close else f"; there are: {_named(there)}"
    return f"there is no topic {name!r}, or this user may not see it{hint}"


def _named(there: Iterable[str]) -> str:
    users = [name for name in there if not name.endswith(_INTERNAL)]
    more = f" and {len(users) - 10} more" if len(users) > 10 else ""
    return (", ".join(users[:10]) or "none") + more


def require_same_topics(
    spark: SparkSession, checkpoint: str, found: Mapping[str, Topic], *, accept_gone: bool = False
) -> None:
    """Compare with the ids that this checkpoint has seen, and keep those that it had not.

    ConfigurationError: a topic was made anew, or is read no longer. A checkpoint of before this
    file existed is taken as it is.
    """
    with _writing:
        _require_same_topics(spark, checkpoint, found, accept_gone=accept_gone)


def _require_same_topics(
    spark: SparkSession, checkpoint: str, found: Mapping[str, Topic], *, accept_gone: bool
) -> None:
    known = known_ids(spark, checkpoint)
    gone = sorted(known.keys() - found.keys())
    if gone and not accept_gone:
        raise ConfigurationError(
            f"{checkpoint} was begun with topic {gone[0]}, and this query does not read it: the "
            "checkpoint is another query's, or the topic was deleted. Each query needs a "
            "checkpoint of its own; accept_data_loss=True goes on without the topic"
        )
    for name, topic in sorted(found.items()):
        was = known.get(name, topic.topic_id)
        if was != topic.topic_id and NO_ID not in (was, topic.topic_id):
            raise ConfigurationError(
                f"topic {name} was deleted and made anew since {checkpoint} was begun (its id was "
                f"{was}, and is {topic.topic_id}): going on would pass over the first messages of "
                "the new one. Start with a new checkpoint"
            )
    now = {**known, **{name: topic.topic_id for name, topic in found.items()}}
    if now != known:
        _write_ids(spark, checkpoint, now)


def known_ids(spark: SparkSession, checkpoint: str) -> dict[str, str]:
    """By topic, as this checkpoint has seen them."""
    text = _text(spark, checkpoint, FILE_NAME)
    if text is None:
        return {}
    try:
        known: dict[str, str] = json.loads(text)["topics"]
    except (ValueError, KeyError, TypeError) as problem:
        raise ConfigurationError(
            f"{checkpoint}/{FILE_NAME} is damaged: bring it back, or delete it if you are sure "
            "that no topic was made anew"
        ) from problem
    return known


def query_of(spark: SparkSession, checkpoint: str) -> str | None:
    """The id of the query whose checkpoint it is, as Spark keeps it; None before its start."""
    text = _text(spark, checkpoint, "metadata")
    return None if text is None else str(json.loads(text)["id"])


def _text(spark: SparkSession, checkpoint: str, name: str) -> str | None:
    jvm, files, path = _file(spark, checkpoint, name)
    if not files.exists(path):
        return None
    stream = files.open(path)
    try:
        return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()


def _write_ids(spark: SparkSession, checkpoint: str, ids: Mapping[str, str]) -> None:
    _, files, path = _file(spark, checkpoint, FILE_NAME)
    scratch = path.suffix(".part")
    stream = files.create(scratch, True)
    try:
        stream.write(bytearray(json.dumps({"topics": ids}, sort_keys=True).encode()))
    finally:
        stream.close()
    if files.exists(path):
        files.delete(path, False)
    if not files.rename(scratch, path):
        raise ConfigurationError(f"{path.toString()} cannot be written")


def _file(spark: SparkSession, checkpoint: str, name: str) -> tuple[Any, Any, Any]:
    """Hadoop's own view: the checkpoint may lie on any file system that Spark writes to."""
    gateway: Any = spark
    jvm = gateway._jvm  # noqa: SLF001
    path = jvm.org.apache.hadoop.fs.Path(checkpoint, name)
    files = path.getFileSystem(gateway._jsc.hadoopConfiguration())  # noqa: SLF001
    return jvm, files, path
