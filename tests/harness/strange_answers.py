"""Answers of an admin door with one field of another kind than it should be."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from halfhitch.service.api import PartitionPhase, PartitionState
from harness.admin_door import QuietSystem

if TYPE_CHECKING:
    from collections.abc import Iterator

GONE = object()
OTHERS = (GONE, None, 7, -1.5, "text", [], [None], ["x"], {}, {"a": None}, True)


class Busy(QuietSystem):
    """Owns a half partition, and is degraded."""

    def partitions(self) -> list[Any]:
        return [PartitionState(2, PartitionPhase.WORKING, 1, 0, 0, 5, 10, 12, 20, 25, None)]

    def degraded_reasons(self) -> list[str]:
        return ["Redis is away"]


def places(answer: Any) -> Iterator[tuple[Any, ...]]:
    """The way to each field, through the first element of lists."""
    entries = answer.items() if isinstance(answer, dict) else ()
    if isinstance(answer, list):
        entries = enumerate(answer[:2])
    for name, value in entries:
        yield (name,)
        for rest in places(value):
            yield (name, *rest)


def changed(answer: Any, place: tuple[Any, ...], to: Any) -> Any:
    answer = copy.deepcopy(answer)
    holder = answer
    try:
        for name in place[:-1]:
            holder = holder[name]
        if to is GONE:
            del holder[place[-1]]
        else:
            holder[place[-1]] = to
    except (KeyError, IndexError, TypeError):
        pass  # this time it answers in another form
    return answer
