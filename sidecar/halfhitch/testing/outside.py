"""What sidecars outside the test's own process have in common: a process, and a container.

Owns the settings that tests want, how a sidecar tells where it listens, and how it is found ready.
It starts nothing.
"""

import re
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from halfhitch.errors import HalfHitchError

#: One broker is enough, and what died is noticed soon.
SETTINGS_OF_TESTS: Final[Mapping[str, object]] = {
    "handle.key": "a key that only tests would use",
    "owner.session_timeout_ms": 6000,
    "topics.create": True,
    "topics.replication_factor": 1,
    "topics.partitions": 1,
}
READY_S: Final = 90.0
_LOOK_S: Final = 0.05
_ANSWER_S: Final = 5.0
_SERVING: Final = re.compile(r"serving on (http://[^\s,]+)(?: and \S+)?, admin on port (\d+)")


class SidecarFailed(HalfHitchError):
    """It has ended, or it does not become ready; the text has the end of its log."""


class Doors(NamedTuple):
    """Where a sidecar listens."""

    address: str
    admin_port: int


def variable_of(key: str) -> str:
    """Of a setting by its dotted name: `http.port` is HALFHITCH_HTTP_PORT."""
    return "HALFHITCH_" + key.replace(".", "_").upper()


def environment_of(settings: Mapping[str, object]) -> dict[str, str]:
    """Settings as a sidecar reads them from its environment."""
    return {variable_of(key): _text(value) for key, value in settings.items()}


def doors_in(log_text: str) -> Doors | None:
    """As the log of the newest start tells them; None if it has told nothing yet."""
    found = _SERVING.findall(log_text)
    return Doors(found[-1][0], int(found[-1][1])) if found else None


def is_ready(admin_address: str) -> bool:
    """Whether /readyz says so; nobody there is not ready."""
    try:
        asked = f"{admin_address}/readyz"
        with urlopen(asked, timeout=_ANSWER_S) as answer:  # noqa: S310 - http:// by its makers
            return int(answer.status) == 204
    except HTTPError as error:
        with error:
            return False
    except (URLError, OSError):
        return False


def await_ready(
    admin_address: Callable[[], str | None],
    has_ended: Callable[[], bool],
    log_text: Callable[[], str],
) -> None:
    """Returns when it is ready. `admin_address` gives None as long as nobody knows it."""
    deadline_s = time.monotonic() + READY_S
    while time.monotonic() < deadline_s:
        where = admin_address()
        if where is not None and is_ready(where):
            return
        if has_ended():
            raise SidecarFailed(f"The sidecar has ended:\n{log_text()}")
        time.sleep(_LOOK_S)
    raise SidecarFailed(f"The sidecar is not ready after {READY_S:.0f} s:\n{log_text()}")


def create_topic(bootstrap: str, topic: str, partition_count: int) -> None:
    """A topic of the users, unless it is there."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(topic, partition_count)]).values():
        try:
            created.result(READY_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    # A broker may hear of it a moment after the controller has answered.
    deadline_s = time.monotonic() + READY_S
    while time.monotonic() < deadline_s:
        known = admin.list_topics(topic, timeout=READY_S).topics[topic]
        if known.error is None and all(one.leader >= 0 for one in known.partitions.values()):
            return
        time.sleep(_LOOK_S)
    raise SidecarFailed(f"The topic {topic} was created, but no broker leads it.")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)
