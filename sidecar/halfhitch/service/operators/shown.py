"""Transactions as operators ask for them and see them. Pure."""

from typing import Final

from halfhitch.service.api import Filter, ParkedTransaction, Undecided
from halfhitch.wire.parked_fold import Parking

_DECISION_NAMES: Final = {"c": "commit", "r": "rollback"}


def matches(wanted: Filter, shown: Undecided) -> bool:
    """Whether an undecided one is asked for."""
    return (
        wanted.takes_group(shown.producer_group)
        and wanted.transaction_id in (None, shown.transaction_id)
        and (wanted.topic is None or wanted.topic in shown.topics)
        and (wanted.older_than_s is None or shown.age_s >= wanted.older_than_s)
        and shown.check_count >= (wanted.check_count_min or 0)
    )


def is_wanted(wanted: Filter, parking: Parking, now_ms: int) -> bool:
    """Whether a parked one is asked for."""
    group, transaction_id = parking.identity
    age_s = (now_ms - parking.parked_ms) / 1000
    return (
        wanted.takes_group(group)
        and wanted.transaction_id in (None, transaction_id)
        and (wanted.topic is None or wanted.topic in parking.topics)
        and (wanted.older_than_s is None or age_s >= wanted.older_than_s)
        and parking.first.why.check_count >= (wanted.check_count_min or 0)
    )


def shown_parked(parking: Parking) -> ParkedTransaction:
    """What the parked topic says of one."""
    why = parking.first.why
    return ParkedTransaction(
        transaction_id=parking.identity[1],
        producer_group=parking.identity[0],
        half_partition=parking.half_partition,
        topics=parking.topics,
        message_count=len(parking.messages),
        reason=why.reason,
        detail=why.detail,
        decision=_DECISION_NAMES.get(parking.decision or ""),
        decision_reason=parking.decision_reason,
        decision_source=parking.decision_source,
        check_count=why.check_count,
        last_answer=why.last_answer,
        asked=why.asked,
        last_reason=why.last_reason,
        parked_ms=parking.parked_ms,
        stored_ms=parking.stored_ms,
        resumed_count=parking.resumed_count,
    )
