"""What a program hands over, as the plain values that requests are made of. No I/O.

Wrong types are told before anything is sent. Text becomes a plain `str`: an f-string writes a
member of `class Topic(str, Enum)` as its name, and json.dumps as its value, which are two topics.
And it is whole: what Python has decoded with `surrogateescape` (file names, argv) has halves of
characters, which no encoding takes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from halfhitch.client.values import Headers, Message
from halfhitch.errors import InvalidRequest


class PlainMessage(NamedTuple):
    """A `Message` of which nothing is left to be looked at."""

    topic: str
    value: bytes | None
    key: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    partition: int | None


def is_text(given: object) -> bool:
    """Types are for those who check them; a handle of None is a common slip."""
    return isinstance(given, str)


def text(given: object, what: str) -> str:
    """Raises TypeError."""
    if type(given) is str:
        return given
    if isinstance(given, str):
        return str.__str__(given)
    raise TypeError(f"{what} must be a str, not {type(given).__name__}")


def why_not_whole(text: str, what: str) -> str | None:
    """What is wrong with it; None: nothing."""
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half, place = text[error.start], error.start + 1
        return (
            f"{what} is no text that could be sent: its character {place} is half of one"
            f" ({half!a}, a lone surrogate). It comes of bytes that are no UTF-8 (a file name,"
            " errors='surrogateescape'), or of JSON that was cut: send the bytes as they were, or"
            " decode them with errors='replace'"
        )
    return None


def whole_text(given: object, what: str) -> str:
    """Raises TypeError, InvalidRequest."""
    found = text(given, what)
    wrong = why_not_whole(found, what)
    if wrong is not None:
        raise InvalidRequest(wrong)
    return found


def transaction_id(given: object) -> str:
    """Raises TypeError, InvalidRequest. An empty one is somebody's own id that is missing."""
    if given == "":
        raise InvalidRequest(
            "the transaction id is empty: each attempt would get another one, and its messages"
            " would be doubled. Give one that is not, or leave it out (None) to have one made"
        )
    if not isinstance(given, str):
        raise TypeError(
            f"the transaction id must be a str, not {type(given).__name__}: the check gets it back"
            " as text, so write str(...), and store that too"
        )
    return whole_text(given, "the transaction id")


def octets(given: object, what: str) -> bytes | None:
    """Raises TypeError, InvalidRequest."""
    if given is None or isinstance(given, bytes):
        return given
    if isinstance(given, str):
        return whole_text(given, f"the {what} of a message").encode()
    if isinstance(given, (bytearray, memoryview)):
        return bytes(given)
    raise TypeError(
        f"the {what} of a message must be bytes, str or None, not {type(given).__name__}:"
        " encode it first, e.g. json.dumps(...).encode()"
    )


def pairs(headers: Headers) -> list[tuple[str, bytes | None]]:
    """Raises TypeError, InvalidRequest. Looks at them once: they may be a generator."""
    found = []
    for pair in headers.items() if isinstance(headers, Mapping) else _each(headers, "headers"):
        if not isinstance(pair, Sequence) or isinstance(pair, str | bytes) or len(pair) != 2:
            raise TypeError(
                "the headers of a message must be a mapping, or pairs: a name and a value each"
            )
        name = whole_text(pair[0], "the name of a header")
        found.append((name, octets(pair[1], f"header {name!r}")))
    return found


def partition(given: object) -> int | None:
    """Raises TypeError."""
    if given is not None and type(given) is not int:
        raise TypeError(f"the partition of a message must be an int, not {type(given).__name__}")
    return given


def immunity_s(given: object) -> int | None:
    """Raises TypeError."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError(f"immunity_s must be whole seconds, an int, not {type(given).__name__}")
    return int(given)


def messages(given: object) -> list[PlainMessage]:
    """Raises TypeError, InvalidRequest."""
    if isinstance(given, Message):
        raise TypeError("messages must be a list: write [Message(...)] for a single one")
    return [_message(one) for one in _each(given, "messages")]


def _message(given: Any) -> PlainMessage:
    if not isinstance(given, Message):
        raise TypeError(f"messages must be halfhitch.Message(...), not {type(given).__name__}")
    return PlainMessage(
        whole_text(given.topic, "the topic of a message"),
        octets(given.value, "value"),
        octets(given.key, "key"),
        pairs(given.headers) if given.headers else (),
        partition(given.partition),
    )


def _each(given: object, what: str) -> Iterable[Any]:
    if isinstance(given, Iterable):
        return given
    raise TypeError(f"{what} must be a list, not {type(given).__name__}")
