"""Schemas by their number, from a registry that speaks Confluent's API.

Asked from the driver, once for each number: a schema never changes. Addresses and secrets stay
there; executors and query plans get the schemas alone.
"""

import json
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from halfhitch.errors import BackendError, ConfigurationError

#: The text of the schema with this number. LookupError, with a reason, where there is none that
#: can be used: its values are dead letters. Whatever else it raises ends the query.
SchemaOf = Callable[[int], str]

_ANSWER_S: Final = 10.0
_ATTEMPTS_MAX: Final = 3
_PAUSE_S: Final = 0.5
#: More is no schema, but an answer that would fill the driver.
_ANSWER_BYTES_MAX: Final = 4 << 20
_REFUSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


def schema_registry(url: str, *, headers: Mapping[str, str] | None = None) -> SchemaOf:
    """Avro schemas of the registry at this address. `headers` go with each request (a token).

    BackendError when it does not answer, ConfigurationError when it refuses: the query ends, and
    goes on from its checkpoint when it is started again.
    """
    if not url.lower().startswith(("http://", "https://")):
        raise ConfigurationError(f"{url!r} is no address of a schema registry: http:// or https://")
    base = url.rstrip("/")
    known: dict[int, str] = {}

    def schema_of(number: int) -> str:
        if number not in known:
            answer = _asked(f"{base}/schemas/ids/{number}", number, dict(headers or {}))
            known[number] = _avro(answer, number)
        return known[number]

    return schema_of


def _asked(address: str, number: int, headers: dict[str, str]) -> bytes:
    trouble: Exception | None = None
    for attempt in range(_ATTEMPTS_MAX):
        time.sleep(_PAUSE_S * attempt)
        try:
            request = Request(address, headers=headers)  # noqa: S310  looked at above
            with urlopen(request, timeout=_ANSWER_S) as answer:  # noqa: S310
                body: bytes = answer.read(_ANSWER_BYTES_MAX + 1)
                return body
        except HTTPError as problem:
            with problem:
                if problem.code == HTTPStatus.NOT_FOUND:
                    raise LookupError(f"the registry has no schema {number}") from None
                if problem.code in _REFUSED:
                    raise ConfigurationError(
                        f"{address} answers {problem.code}: the registry wants to know who asks "
                        "(headers=), or does not let this user read schemas"
                    ) from None
                trouble = problem
        except (URLError, OSError) as problem:
            trouble = problem
    raise BackendError(
        f"the schema registry did not answer {address}: {trouble}. Start the query again when it "
        "does: it goes on from its checkpoint"
    ) from trouble


def _avro(answer: bytes, number: int) -> str:
    if len(answer) > _ANSWER_BYTES_MAX:
        raise LookupError(f"schema {number} is longer than {_ANSWER_BYTES_MAX >> 20} MiB")
    try:
        found: dict[str, Any] = json.loads(answer)
        text = found["schema"]
    except (ValueError, KeyError, TypeError):
        raise BackendError(
            f"what answers for schema {number} is no schema registry: {answer[:80]!r}"
        ) from None
    kind = found.get("schemaType", "AVRO")
    if kind != "AVRO":
        raise LookupError(f"schema {number} is {kind}, not Avro")
    if found.get("references"):
        raise LookupError(f"schema {number} refers to others, which is not supported")
    return str(text)
