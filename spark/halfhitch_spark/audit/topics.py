"""Which topics an audit reads, and why it does not read others.

Owns the names of Half Hitch's topics as a job needs them: it can import nothing of the server.
Pure: what there is comes as an argument.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Final

from halfhitch.errors import ConfigurationError
from halfhitch.verify.account import Layout
from halfhitch.verify.report import Unjudged

_WILD: Final = frozenset("*?[")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
#: Kafka's own and RocketMQ's internal names; no message may go there.
_INTERNAL: Final = ("__", "RMQ_SYS_", "%RETRY%", "%DLQ%", "rmq_sys_")


@dataclass(frozen=True, slots=True)
class Names:
    """Of one installation's own topics, and of the group under which owners store watermarks."""

    prefix: str = ""

    @property
    def half(self) -> str:
        """Half messages."""
        return self.prefix + "RMQ_SYS_TRANS_HALF_TOPIC"

    @property
    def op(self) -> str:
        """Decisions, done marks and conflicts."""
        return self.prefix + "RMQ_SYS_TRANS_OP_HALF_TOPIC"

    @property
    def parked(self) -> str:
        """Half messages that were given up."""
        return self.prefix + "TRANS_CHECK_MAX_TIME_TOPIC"

    @property
    def audit(self) -> str:
        """What became of transactions; an installation need not have it."""
        return self.prefix + "RMQ_SYS_TRANS_AUDIT_TOPIC"

    @property
    def owner_group(self) -> str:
        """The owners' consumer group."""
        return self.prefix + "CID_RMQ_SYS_TRANS"

    @property
    def needed(self) -> tuple[str, str, str]:
        """Topics without which there is nothing to audit."""
        return self.half, self.op, self.parked


def is_possible(names: Names, topic: str) -> bool:
    """Whether a message may go to a topic of this name."""
    own = (*names.needed, names.audit)
    if _NAME.fullmatch(topic) is None or topic in (".", "..", *own):
        return False
    return not topic.startswith(_INTERNAL)


def targets_among(
    names: Names, there: Mapping[str, int], allow: Sequence[str], only: Sequence[str]
) -> tuple[dict[str, int], bool]:
    """The targets to be read, with their numbers of partitions; and whether these are all.

    ConfigurationError for a topic or pattern that leads nowhere: what was not looked for would be
    taken for lost.
    """
    for topic in names.needed:
        if topic not in there:
            raise ConfigurationError(
                f"the topic {topic} does not exist: is --topics-prefix the sidecar's?"
            )
    users = [topic for topic in there if is_possible(names, topic)]
    for pattern in allow:
        if pattern != "*" and not _matching(users, [pattern]):
            near = get_close_matches(pattern.strip("*"), users, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise ConfigurationError(
                f"--topics-allow has {pattern!r}, which matches no topic{hint}: what was forwarded "
                "elsewhere would be taken for lost. Give the sidecar's topics.allow, without what "
                "does not exist"
            )
    for topic in only:
        if topic not in users:
            raise ConfigurationError(f"the topic {topic!r} does not exist: see --topic")
    allowed = _matching(users, allow)
    read = list(dict.fromkeys(only)) or allowed
    return {topic: there[topic] for topic in sorted(read)}, set(allowed) <= set(read)


def why_unread(
    names: Names, layout: Layout, named: Iterable[str], there: Collection[str], allow: Sequence[str]
) -> dict[str, Unjudged]:
    """Of topics that halves name and that were not read; left out: there is no such topic."""
    found = {}
    for topic in named:
        if topic in layout.targets:
            continue
        if not is_possible(names, topic):
            found[topic] = Unjudged.TARGET_IMPOSSIBLE
        elif topic in there:
            is_allowed = bool(_matching([topic], allow))
            found[topic] = Unjudged.TARGET_NOT_READ if is_allowed else Unjudged.TARGET_OUTSIDE
    return found


def _matching(topics: Collection[str], patterns: Sequence[str]) -> list[str]:
    return [t for t in topics if any(fnmatchcase(t, pattern) for pattern in patterns)]
