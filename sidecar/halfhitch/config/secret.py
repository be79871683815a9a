"""A value that does not print.

Owns `Secret`. Its invariant: no conversion to text, no format, no dump and no pickle shows the
value; only `reveal()` does, so that every use can be found by searching for that word.
It does not protect the memory of the process.
"""

import hmac
from typing import NoReturn

MASK = "***"


class Secret:
    """A text that only `reveal()` gives away; compared in constant time."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The text itself. Do not log, format or store what this returns."""
        return self._value

    def __repr__(self) -> str:
        return MASK

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is never pickled: pass it by reference, or reveal() it knowingly")
