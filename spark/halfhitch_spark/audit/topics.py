"""Which topics an audit reads, and why it does not read others.

Pure: what there is comes as an argument.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from halfhitch.errors import ConfigurationError
from halfhitch.verify.account import Layout
from halfhitch.verify.report import Unjudged
from halfhitch.wire.topics import INTERNAL_PREFIXES, InternalTopics, is_name


def is_possible(names: InternalTopics, topic: str) -> bool:
    """Whether a message may go to a topic of this name."""
    return (
        is_name(topic) and topic not in names.reserved and not topic.startswith(INTERNAL_PREFIXES)
    )


def targets_among(
    names: InternalTopics, there: Mapping[str, int], allow: Sequence[str], only: Sequence[str]
) -> tuple[dict[str, int], bool]:
    """The targets to be read, with their numbers of partitions; and whether these are all.

    ConfigurationError for a topic or pattern that leads nowhere: what was not looked for would be
    taken for lost.
    """
    for topic in names.all:
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
    names: InternalTopics,
    layout: Layout,
    named: Iterable[str],
    there: Collection[str],
    allow: Sequence[str],
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
