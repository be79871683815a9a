"""What the owner of a half partition takes no more of, as instances tell it to each other.

A JSON array in text, short enough for the metadata of a stored offset:

    ["1", undecided, lag, groups, topics]    undecided: null or [count, bound];
                                             lag: null or [s, bound];
                                             groups: {producer group: [count, bound], ...}
                                             topics: {target: [count, bound], ...}

`topics` is left out where there are none. Among `groups` stand identities, too, by `TEAM` and their
name, which is no name that a group can have: a release that knows no identities here passes over
them. Reading is strict and total: a text that is not of this
form says nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

_VERSION: Final = "1"
#: Begins the key of an identity, all of whose groups together have reached their bound.
TEAM: Final = "\0"
#: A broker takes 4,096 bytes of metadata unless told otherwise.
TEXT_BYTES_MAX: Final = 3_800
_NAME_BYTES_MAX: Final = 255


@dataclass(frozen=True, slots=True)
class Over:
    """A number that has reached its bound."""

    value: int
    bound: int


@dataclass(frozen=True, slots=True)
class Burden:
    """Of one half partition: which of its bounds are reached. Without any it is falsy."""

    #: Undecided transactions of all groups, and decided ones that wait for a target.
    undecided: Over | None = None
    #: Whole seconds that the owner is behind its logs.
    lag_s: Over | None = None
    #: Undecided transactions of single producer groups; and of identities, see TEAM.
    groups: Mapping[str, Over] = field(default_factory=dict)
    #: Decided transactions that wait for single targets, which are away. Below their bound, too,
    #: where `undecided` is reached: it is they who fill it.
    topics: Mapping[str, Over] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.is_whole or bool(self.groups) or bool(self.topics)

    @property
    def is_whole(self) -> bool:
        """Whether it concerns every group."""
        return self.undecided is not None or self.lag_s is not None


def write(burden: Burden) -> str:
    """The text. Topics and groups that do not fit into it are left out, those with least first."""
    size_bytes = 100
    found: list[dict[str, list[int]]] = []
    for named in (burden.topics, burden.groups):
        fitting: dict[str, list[int]] = {}
        for name, over in sorted(named.items(), key=lambda item: -item[1].value):
            size_bytes += len(msgspec.json.encode(name)) + 40
            if size_bytes > TEXT_BYTES_MAX:
                break
            fitting[name] = _pair(over)
        found.append(fitting)
    topics, groups = found
    undecided = None if burden.undecided is None else _pair(burden.undecided)
    lag_s = None if burden.lag_s is None else _pair(burden.lag_s)
    parts = [_VERSION, undecided, lag_s, groups]
    return msgspec.json.encode([*parts, topics] if topics else parts).decode()


def read(text: str) -> Burden | None:
    """None: it is not one, or of a version that this release does not know."""
    try:
        version, undecided, lag_s, groups, topics = _decoded(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    if version != _VERSION or any(len(n.encode()) > _NAME_BYTES_MAX for n in (*groups, *topics)):
        return None
    return Burden(
        None if undecided is None else Over(*undecided),
        None if lag_s is None else Over(*lag_s),
        {group: Over(*pair) for group, pair in groups.items()},
        {topic: Over(*pair) for topic, pair in topics.items()},
    )


_Pair = tuple[int, int]
_Names = dict[str, _Pair]
_Short = tuple[str, _Pair | None, _Pair | None, _Names]
_Form = tuple[str, _Pair | None, _Pair | None, _Names, _Names]


def _decoded(raw: bytes) -> _Form:
    try:
        return (*msgspec.json.decode(raw, type=_Short), {})
    except msgspec.ValidationError:
        found: _Form = msgspec.json.decode(raw, type=_Form)
        return found


def _pair(over: Over) -> list[int]:
    return [over.value, over.bound]
