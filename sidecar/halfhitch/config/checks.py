"""Settings of the check-back. The defaults are RocketMQ's; its names stand in the descriptions."""

from typing import Annotated, Literal

from msgspec import Meta

from halfhitch.config.group import Group, Seconds, Text
from halfhitch.config.secret import Secret


class ChecksSettings(Group, frozen=True, kw_only=True):
    """Check-back"""

    immunity_s: Annotated[
        float,
        Meta(
            ge=0.1,
            le=86_400,
            description="No check before a transaction is so old, unless it asks for another time "
            "(RocketMQ: transactionTimeOut).",
        ),
    ] = 6.0
    interval_s: Annotated[
        float,
        Meta(
            ge=0.1,
            le=86_400,
            description="From one check of a transaction to its next (transactionCheckInterval).",
        ),
    ] = 60.0
    backoff: Annotated[
        float,
        Meta(ge=1, le=10, description="Each interval is longer than the last by this factor."),
    ] = 1.0
    interval_s_max: Annotated[
        float, Meta(ge=0.1, le=86_400, description="With a backoff: no interval is longer.")
    ] = 3_600.0
    jitter: Annotated[
        float, Meta(ge=0, le=0.5, description="Intervals are longer by up to this part of them.")
    ] = 0.1
    count_max: Annotated[
        int,
        Meta(
            ge=1,
            le=10_000,
            description="Checks that must have reached a producer before it is given up "
            "(transactionCheckMax).",
        ),
    ] = 15
    age_s_max: Annotated[
        int,
        Meta(
            ge=60,
            le=31_536_000,
            description="An older transaction is given up whatever its count (fileReservedTime). "
            "After a takeover its producers are asked first.",
        ),
    ] = 259_200
    renew_s: Annotated[
        int,
        Meta(
            ge=10,
            le=604_800,
            description="Pending messages older than this are stored anew, so that a takeover "
            "need not read that far back.",
        ),
    ] = 3_600
    answer_s_max: Annotated[Seconds, Meta(description="How long a check waits for its answer.")] = (
        10.0
    )
    in_flight_max: Annotated[
        int,
        Meta(ge=1, le=100_000, description="Checks of one producer group under way at a time."),
    ] = 256
    give_up: Annotated[
        Literal["park", "rollback", "commit"],
        Meta(description="What becomes of a transaction that is given up."),
    ] = "park"
    give_up_topics: Annotated[
        tuple[Text, ...],
        Meta(description="Other policies by topic pattern, first match: orders.*=rollback."),
    ] = ()
    url: Annotated[
        str | None,
        Meta(description="Checks are sent here by POST, for producers that hold no stream."),
    ] = None
    url_groups: Annotated[
        tuple[Text, ...],
        Meta(min_length=1, description="Producer groups (patterns) that checks.url answers for."),
    ] = ("*",)
    url_networks: Annotated[
        tuple[Text, ...],
        Meta(description="Networks checks.url may lead to besides loopback: 10.0.0.0/8."),
    ] = ()
    url_token: Annotated[
        Secret | None, Meta(description="Sent to checks.url in the Half-Token header.")
    ] = None
