"""What whoever asks for an end is told, in a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from halfhitch.errors import ContraryDecision, KafkaUnavailable, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Awaitable


async def answer_of(asking: Awaitable[None]) -> str:
    """yes: it counts; no: another one does; failed: it is not in the log; unknown."""
    try:
        await asking
    except ContraryDecision:
        return "no"
    except OutcomeUnknown:
        return "unknown"
    except KafkaUnavailable:
        return "failed"
    return "yes"
