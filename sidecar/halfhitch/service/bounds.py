"""When a half partition is full, a group has too much in it, or its owner is too far behind.

Pure. A bound that was reached counts as reached until its number has gone well below it: else
prepares would be refused and taken in turn, many times a second.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from halfhitch.wire.burden import Burden, Over

#: Of a bound on transactions; they go in thousands.
_EASED: Final = 0.9
#: Of the bound on lag: an owner that has caught up so far will not be behind again at once.
_EASED_LAG: Final = 0.5

NONE: Final = Burden()


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeLimits:
    """Of each half partition; see config/limits.py for what they mean to an operator."""

    undecided_max: int = 50_000
    undecided_group_max: int = 25_000
    lag_s_max: float = 8.0


def judge(
    limits: IntakeLimits,
    before: Burden,
    *,
    undecided_count: int,
    undecided_by_group: Mapping[str, int],
    lag_s: float,
) -> Burden:
    """Which bounds are reached, after it was `before`."""
    whole = _over(undecided_count, limits.undecided_max, _EASED, was=before.undecided)
    lag = _over(lag_s, limits.lag_s_max, _EASED_LAG, was=before.lag_s)
    groups: dict[str, Over] = {}
    bound = limits.undecided_group_max
    # No group can have more than all have: most of the time there is nothing to look through.
    if undecided_count >= bound * _EASED:
        for group, count in undecided_by_group.items():
            over = _over(count, bound, _EASED, was=before.groups.get(group))
            if over is not None:
                groups[group] = over
    if whole is None and lag is None and not groups:
        return NONE
    return Burden(whole, lag, groups)


def _over(value: float, bound: float, eased: float, *, was: Over | None) -> Over | None:
    reached = value >= (bound if was is None else bound * eased)
    return Over(round(value), round(bound)) if reached else None
