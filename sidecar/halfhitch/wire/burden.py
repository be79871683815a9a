"""What the owner of a half partition takes no more of, as instances tell it to each other.

A JSON array in text, short enough for the metadata of a stored offset:

    ["1", undecided, lag, groups]    undecided: null or [count, bound]; lag: null or [s, bound];
                                     groups: {producer group: [count, bound], ...}

Reading is strict and total: a text that is not of this form says nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

_VERSION: Final = "1"
#: A broker takes 4,096 bytes of metadata unless told otherwise.
TEXT_BYTES_MAX: Final = 3_800
_GROUP_BYTES_MAX: Final = 255


@dataclass(frozen=True, slots=True)
class Over:
    """A number that has reached its bound."""

    value: int
    bound: int


@dataclass(frozen=True, slots=True)
class Burden:
    """Of one half partition: which of its bounds are reached. Without any it is falsy."""

    #: Undecided transactions of all groups.
    undecided: Over | None = None
    #: Whole seconds that the owner is behind its logs.
    lag_s: Over | None = None
    #: Undecided transactions of single producer groups.
    groups: Mapping[str, Over] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.is_whole or bool(self.groups)

    @property
    def is_whole(self) -> bool:
        """Whether it concerns every group."""
        return self.undecided is not None or self.lag_s is not None


def write(burden: Burden) -> str:
    """The text. Groups that do not fit into it are left out, those with least first."""
    groups: dict[str, list[int]] = {}
    size_bytes = 100
    for group, over in sorted(burden.groups.items(), key=lambda item: -item[1].value):
        size_bytes += len(msgspec.json.encode(group)) + 40
        if size_bytes > TEXT_BYTES_MAX:
            break
        groups[group] = _pair(over)
    undecided = None if burden.undecided is None else _pair(burden.undecided)
    lag_s = None if burden.lag_s is None else _pair(burden.lag_s)
    return msgspec.json.encode((_VERSION, undecided, lag_s, groups)).decode()


def read(text: str) -> Burden | None:
    """None: it is not one, or of a version that this release does not know."""
    try:
        found = msgspec.json.decode(text.encode(), type=_Form)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    version, undecided, lag_s, groups = found
    if version != _VERSION or any(len(group.encode()) > _GROUP_BYTES_MAX for group in groups):
        return None
    return Burden(
        None if undecided is None else Over(*undecided),
        None if lag_s is None else Over(*lag_s),
        {group: Over(*pair) for group, pair in groups.items()},
    )


_Pair = tuple[int, int]
_Form = tuple[str, _Pair | None, _Pair | None, dict[str, _Pair]]


def _pair(over: Over) -> list[int]:
    return [over.value, over.bound]
