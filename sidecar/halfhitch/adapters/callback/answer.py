"""What a callback's response says, if it says anything.

Owns the one rule of reading it: status 200 and a JSON object with a state, and if it names a
transaction then the right one, is an answer. Everything else is none: not "no", not "roll back".
Fields that are not known make it none as well: "COMMIT", but with an error beside it, is not clear.
"""

import json
from typing import Final

from halfhitch.core.model import TransactionId
from halfhitch.service.checking.api import CheckOutcome
from halfhitch.service.reasons import kept_reason

_STATES: Final = {
    "COMMIT": CheckOutcome.COMMIT,
    "ROLLBACK": CheckOutcome.ROLLBACK,
    "UNKNOWN": CheckOutcome.UNKNOWN,
}
_FIELDS: Final = {"state", "transaction_id", "reason"}


class NoAnswer(Exception):
    """The response is none; the text says why, without repeating any of it."""


def read(
    status: int, body: bytes, transaction_id: TransactionId
) -> tuple[CheckOutcome, str | None]:
    """The state, and why it is that one, if it says so. Raises NoAnswer."""
    if status != 200:
        moved = " (redirects are not followed)" if 300 <= status < 400 else ""
        raise NoAnswer(f"status {status} instead of 200{moved}")
    try:
        fields = json.loads(body.decode(), object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise NoAnswer("a body that is not one JSON object with each field once") from None
    if not isinstance(fields, dict) or "state" not in fields or not fields.keys() <= _FIELDS:
        raise NoAnswer('a body other than {"state": ..., "transaction_id": ..., "reason": ...}')
    if fields.get("transaction_id", transaction_id) != transaction_id:
        raise NoAnswer("an answer for another transaction")
    state = fields["state"]
    if not isinstance(state, str) or state not in _STATES:
        raise NoAnswer("a state other than COMMIT, ROLLBACK and UNKNOWN")
    reason = fields.get("reason")
    if reason is not None and not isinstance(reason, str):
        raise NoAnswer("a reason that is no text")
    return _STATES[state], kept_reason(reason)


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Most readers would take the last of two states; then the first one was never said."""
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a field is there twice")
    return fields
