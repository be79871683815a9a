"""The native carrier out of its package, over the librdkafka that confluent-kafka has brought.

It is an accelerator of what the door does in Python: where it is not installed, or does not fit,
everything goes the interpreted way.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaError

from halfhitch.adapters.kafka.clients import logger
from halfhitch.adapters.kafka.errors import append_error
from halfhitch.adapters.native.face import has_http, installed
from halfhitch.errors import HalfHitchError

#: They call back into the program, which native threads do not.
_NEEDS_CALLBACKS: Final = ("sasl.oauthbearer.", "oauth_cb")
_LIBRARY: Final = "librdkafka*"


def load() -> Callable[..., Any] | None:
    """The class of the carrier; None without the package, or with one that does not fit."""
    module, trouble = installed()
    if trouble is not None:
        logging.getLogger(__name__).warning("%s", trouble, extra={"action": "native_misfit"})
    if module is None:
        return None
    found: Callable[..., Any] = module.Native
    return found


def load_http() -> Callable[..., Any] | None:
    """The same of the data door; an older build has none."""
    module, _ = installed()
    if module is None or not has_http(module):
        return None
    found: Callable[..., Any] = module.HttpNative
    return found


def library() -> str | None:
    """Where the wheel of confluent-kafka keeps librdkafka; None in a build of another kind."""
    package = Path(confluent_kafka.__file__).parent
    for folder in (package.parent / "confluent_kafka.libs", package / ".dylibs"):
        for path in sorted(folder.glob(_LIBRARY)):
            return str(path)
    return None


def native_options(config: Mapping[str, Any]) -> list[tuple[str, str]] | None:
    """A producer's configuration as librdkafka's own functions take it; None: it cannot be."""
    options: list[tuple[str, str]] = []
    for name, value in config.items():
        if name.startswith(_NEEDS_CALLBACKS):
            return None
        text = str(value).lower() if isinstance(value, bool) else str(value)
        options.append((name, text))
    return options


def native_error(code: int, topic: str) -> HalfHitchError:
    """What librdkafka's number means."""
    return append_error(KafkaError(code), topic)


def native_log(level: int, facility: str, line: str) -> None:
    """A line of librdkafka, whose levels are syslog's."""
    logger.log(
        logging.ERROR if level <= 3 else logging.WARNING if level == 4 else logging.INFO,
        "%s [%s] %s",
        facility,
        "native#producer",
        line,
    )
