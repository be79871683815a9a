"""Where Kafka and the data door are, for commands that a person types without settings.

What was given counts. Else the sidecar that answers is asked: it knows its Kafka, and under which
prefix its topics are.
"""

from halfhitch.config import Purpose, Settings
from halfhitch.errors import BackendError, ConfigurationError, RequestError
from halfhitch_cli.client import AdminClient
from halfhitch_cli.options import Given

_WAIT_S = 3.0


def kafka_settings(given: Given) -> Settings:
    """Settings with Kafka's address and the topics' prefix. Raises ConfigurationError."""
    settings = given.load(Purpose.CLIENT)
    is_there = bool(settings.kafka.bootstrap)
    if is_there and "topics.prefix" in settings.sources:
        return given.load(Purpose.TOOL)
    door = AdminClient.of(settings)
    try:
        _, status = door.get("/v1/status", wait_s=_WAIT_S)
        info = status["info"]
        bootstrap, prefix = str(info["kafka_bootstrap"]), str(info["topic_prefix"])
    except (BackendError, RequestError, KeyError, TypeError) as error:
        if is_there:  # without a sidecar, the prefix is what it is where nobody sets one
            return given.load(Purpose.TOOL)
        reason = error.message if isinstance(error, BackendError | RequestError) else "no sidecar"
        raise ConfigurationError(
            "Where Kafka is was not said, and no sidecar could be asked: give "
            f"--kafka-bootstrap host:port (HALFHITCH_KAFKA_BOOTSTRAP). {reason}"
        ) from None
    more: dict[str, object] = {}
    if not is_there:
        more["kafka__bootstrap"] = bootstrap
    # Another Kafka than the sidecar's may have other topics.
    if "topics.prefix" not in settings.sources and settings.kafka.bootstrap in ("", bootstrap):
        more["topics__prefix"] = prefix
    return given.load(Purpose.TOOL, **more)
