"""Settings of the bounds: what a half partition takes no more of (see service/bounds.py)."""

from typing import Annotated

from msgspec import Meta

from halfhitch.config.group import Group


class LimitsSettings(Group, frozen=True, kw_only=True):
    """Bounds of a half partition"""

    undecided_max: Annotated[
        int,
        Meta(
            ge=10,
            le=10_000_000,
            description="Transactions in a half partition that are undecided, or decided and "
            "waiting for a topic that is away; beyond it new prepares get 429. Its owner's memory "
            "holds some 700 bytes for each.",
        ),
    ] = 50_000
    undecided_group_max: Annotated[
        int,
        Meta(
            ge=10,
            le=10_000_000,
            description="Undecided ones of one producer group, counting those older than a "
            "second; and as many may wait for one topic that is away.",
        ),
    ] = 25_000
    lag_s_max: Annotated[
        float,
        Meta(
            ge=1,
            le=3_600,
            description="While its owner is further behind, a half partition takes no prepares.",
        ),
    ] = 8.0
