"""Names of topics: Half Hitch's own, and those that no message may go to.

The names are a public contract, RocketMQ's spelling kept: consumers, Spark jobs and other releases
know them.
"""

import re
from dataclasses import dataclass
from typing import Final

#: Kafka's own and RocketMQ's internal names, whoever uses them: no message may go there.
INTERNAL_PREFIXES: Final = ("__", "RMQ_SYS_", "%RETRY%", "%DLQ%", "rmq_sys_")
NAME_CHARACTERS_MAX: Final = 249
_NAME: Final = re.compile(rf"[A-Za-z0-9._-]{{1,{NAME_CHARACTERS_MAX}}}")


def is_name(topic: str) -> bool:
    """Whether Kafka takes it as a topic's name."""
    return _NAME.fullmatch(topic) is not None and topic not in (".", "..")


@dataclass(frozen=True, slots=True)
class InternalTopics:
    """Names of the topics and the group that belong to Half Hitch."""

    prefix: str = ""

    @property
    def half(self) -> str:
        """Half messages: stored, invisible."""
        return self.prefix + "RMQ_SYS_TRANS_HALF_TOPIC"

    @property
    def op(self) -> str:
        """Decisions, done marks and conflicts."""
        return self.prefix + "RMQ_SYS_TRANS_OP_HALF_TOPIC"

    @property
    def parked(self) -> str:
        """Half messages that were given up, payload and reason kept."""
        return self.prefix + "TRANS_CHECK_MAX_TIME_TOPIC"

    @property
    def audit(self) -> str:
        """What became of transactions; not among `all`, for nothing else depends on it."""
        return self.prefix + "RMQ_SYS_TRANS_AUDIT_TOPIC"

    @property
    def owner_group(self) -> str:
        """Consumer group whose members own the half partitions."""
        return self.prefix + "CID_RMQ_SYS_TRANS"

    @property
    def bounds_group(self) -> str:
        """Group without members, under which owners tell what they take no more of."""
        return self.owner_group + "_BOUNDS"

    @property
    def skips_group(self) -> str:
        """Group without members, under which operators say which records to pass over."""
        return self.owner_group + "_SKIPS"

    @property
    def all(self) -> tuple[str, str, str]:
        """Half, op, parked."""
        return (self.half, self.op, self.parked)

    @property
    def reserved(self) -> tuple[str, ...]:
        """All names that are ours: no message of a user goes there."""
        return (*self.all, self.audit)
