"""Answers of an admin door, which may be of another release, or no sidecar's.

A field that is of another kind than the contract says (doors/admin/openapi.yaml) is as good as one
that is missing: whoever needs it says so in a sentence, whoever can do without shows a dash. Fields
that are not in the contract are left as they are; nothing is asked of those that nobody uses.
"""

from collections.abc import Mapping
from typing import Any, Final

from halfhitch.errors import BackendError

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "bool": (bool,),
    "int": (int,),
    "number": (int, float),
    "text": (str,),
}
#: Name -> kind, the same wherever it stands: `[x]` a list, `{}` an object of such fields, `{x}`
#: one whose names are the users' own, `pair` a list with a text and something more in it, `?` that
#: it may be null, `any` whatever there is.
KINDS: Final[dict[str, str]] = {
    "age_s": "number", "alive": "bool", "asked": "text?", "at_ms": "int", "breaker": "text",
    "by": "text?", "check_count": "int", "check_max": "int", "checking_count": "int",
    "clock_ahead_s": "number", "code": "text", "content": "{}?", "decided_by": "text?",
    "decided_count": "int", "decision": "text?", "decision_reason": "text?",
    "decision_source": "text?", "degraded": "[text]", "delivered": "bool", "detail": "text",
    "due_count": "int", "early_count": "int", "elsewhere": "[text]", "ended_ms": "int?",
    "error": "{}", "events": "[{}]", "finished_count": "int", "from_index": "bool",
    "groups": "[{}]", "half_offsets": "[int]", "half_partition": "int", "half_position": "int",
    "half_watermark": "int", "headers": "[pair]", "hidden_count": "int", "index": "int",
    "info": "{any}", "is_cut": "bool", "kept_since_ms": "int?", "key": "text?",
    "key_base64": "text", "key_bytes": "int", "lag_s": "number", "landed": "[{}]?",
    "landed_trouble": "text?", "last_answer": "text?", "last_reason": "text?",
    "left_out_count": "int", "link_count": "int", "links": "[text]", "log_offset": "int",
    "may_operate": "{bool}", "message": "text", "message_count": "int", "messages": "[{}]",
    "missing_partitions": "[int]", "name": "text?", "names": "{[text]}",
    "next_check_s": "number?", "number": "int?", "oldest_age_by_group": "{number}",
    "oldest_age_s": "number", "op_position": "int", "op_watermark": "int", "outcome": "text?",
    "outstanding_count": "int", "parked_ms": "int", "partition": "int?", "partitions": "[{}]",
    "pending_by_group": "{int}", "pending_count": "int", "phase": "text",
    "producer_group": "text", "ready": "bool", "reason": "text?", "reasons": "[text]",
    "results": "{[{}]}", "resumed_count": "int", "retryable": "bool", "revision": "text",
    "rights": "[text]", "sees_all": "bool", "settings": "[{any}]", "state": "text", "status": "int",
    "stored_ms": "int", "stories": "[{}]", "targets": "[pair]", "took_ms": "int?",
    "topic": "text", "topics": "[text]", "total_count": "int", "transaction": "{}",
    "transaction_id": "text", "transactions": "[{}]", "trouble": "text?", "troubles": "[text]",
    "undecided_count": "int", "unknown_count": "int", "value": "text?", "value_base64": "text",
    "value_bytes": "int", "waiting_by_topic": "{int}", "waiting_count": "int", "what": "text",
}  # fmt: skip


class Answer(dict[str, Any]):
    """An object of an answer: a name that is not in it is told in a sentence, not by a traceback.

    Another release may not give what this one asks for, and another program's door answers too.
    """

    def __missing__(self, name: str) -> Any:
        raise BackendError(
            f"The answer has no {name!r}, or none that can be read: a sidecar of another release, "
            "or no sidecar, has given it. Use the halfhitch of the sidecar's release, and check "
            "--admin-host and --admin-port."
        )


def elsewhere(info: Mapping[str, Any], cluster_id: str, address: str) -> str | None:
    """Says so, if the sidecar with this `info` works on another cluster; it may not know yet."""
    if info["kafka_cluster_id"] in (cluster_id, None):
        return None
    bootstrap = info["kafka_bootstrap"]
    return f"The sidecar at {address} works on another Kafka cluster, at {bootstrap}."


def settings_of(config: Any) -> dict[str, Any]:
    """What /v1/config tells, by key; the values are what they are."""
    return {
        row["key"]: row["value"]
        for row in config["settings"]
        if isinstance(row.get("key"), str) and "value" in row
    }


def without_strange(answer: Any) -> Any:
    """The answer without fields of a wrong kind."""
    if isinstance(answer, dict):
        for name in [n for n, value in answer.items() if not _fits(value, KINDS.get(n, "any"))]:
            del answer[name]
    return answer


def _fits(value: Any, kind: str) -> bool:
    if kind == "any":
        return True
    if value is None:
        return kind.endswith("?")
    kind = kind.removesuffix("?")
    if kind == "pair":
        return isinstance(value, list) and len(value) > 1 and isinstance(value[0], str)
    types = _TYPES.get(kind)
    if types is not None:
        return isinstance(value, types) and (kind == "bool" or not isinstance(value, bool))
    inner = kind[1:-1]
    if kind[0] == "[":
        return isinstance(value, list) and all(_fits(one, inner) for one in value)
    if not isinstance(value, dict):
        return False
    if inner:
        return all(_fits(one, inner) for one in value.values())
    without_strange(value)
    return True
