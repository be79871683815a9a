"""The headers of a record, also where Kafka's Python client cannot read them.

confluent-kafka takes a header's name for UTF-8 (2.16). Of one that is not it raises SystemError
when it is asked first, and after that gives pairs with nothing in them: whoever touches such a one
ends the process. Anybody may write such a record to a topic, so everybody who reads asks here.
"""

import logging
from operator import methodcaller
from typing import Any, Final

#: Not `message.headers()`: where that is hot, the interpreter calls the binding without a look at
#: whether it has raised, and the error comes up in some later call.
_HEADERS: Final = methodcaller("headers")

logger: Final = logging.getLogger(__name__)


def headers_of(message: Any) -> list[tuple[str, bytes | None]] | None:
    """None when they cannot be read; the message itself says so too from then on."""
    try:
        headers: list[tuple[str, bytes | None]] | None = _HEADERS(message)
    except SystemError:
        message.set_headers([])
        logger.warning(
            "%s-%s record %s: a header name is not UTF-8, its headers are not read",
            message.topic(),
            message.partition(),
            message.offset(),
            extra={"action": "headers_unreadable"},
        )
        return None
    return headers
