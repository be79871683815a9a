"""Which target topics `halfhitch verify` reads, and why it does not read others.

A message that is not found is lost only if everything was read to where it can have gone. So what
was not asked for, what the allow list leaves out and what this user may not read are told apart
from what is not there: Kafka shows a user without the right to describe a topic nothing of it, and
one without the right to read it everything but its records. Everything here blocks.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient  # type: ignore[attr-defined]

from halfhitch.adapters.kafka.admin import answer, topic_configs
from halfhitch.adapters.kafka.errors import describe
from halfhitch.errors import ConfigurationError, KafkaUnavailable, TopologyError
from halfhitch.service.topic_policy import TopicPolicy
from halfhitch.verify.report import Unjudged
from halfhitch.wire.topics import InternalTopics

_WILD: Final = frozenset("*?[")
_NO_RIGHT: Final = KafkaError.TOPIC_AUTHORIZATION_FAILED
_UNKNOWN: Final = KafkaError.UNKNOWN_TOPIC_OR_PART


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be read.

    `only`: these targets instead of all that `allow` admits. `needed`: those patterns of `allow`
    that must match something, or they are misspelled. `reach`: where a sidecar lets messages go, as
    it says itself; empty if it was not asked: then `allow` is taken for it.
    """

    allow: Sequence[str] = ("*",)
    only: Sequence[str] = ()
    needed: frozenset[str] = frozenset()
    reach: Sequence[str] = ()


@dataclass(slots=True)
class Targets:
    """What is read, by name: how many partitions each has, and what is not."""

    partitions: dict[str, int]
    has_all: bool
    unreadable: frozenset[str]
    compacted: Mapping[str, int] = field(default_factory=dict)
    unclear: frozenset[str] = frozenset()
    internal: dict[str, int] = field(default_factory=dict)


class TargetFinder:
    """See the module's text."""

    def __init__(
        self, admin: AdminClient, names: InternalTopics, wanted: Wanted, *, wait_s: float
    ) -> None:
        self._admin = admin
        self._names = names
        self._wanted = wanted
        self._wait_s = wait_s
        self._anywhere = TopicPolicy(internal_topics=names.reserved, allow=("*",))

    def find(self) -> Targets:
        """Everything there is. Raises ConfigurationError, TopologyError, KafkaUnavailable."""
        wanted = self._wanted
        known = self._listed()
        named = [*self._names.all, *wanted.only, *(p for p in wanted.allow if not _WILD & set(p))]
        known |= self._asked([topic for topic in named if topic not in known])
        self._check_internal(known)
        # None: it is there, or may be, and nothing is shown of it.
        users = {t: c for t, c in known.items() if self._anywhere.refusal(t) is None}
        self._check_patterns(users)
        allowed = _matching(users, wanted.allow)
        for topic in wanted.only:
            if topic not in users:
                raise ConfigurationError(f"The topic {topic!r} does not exist: see --topic.")
        asked = list(dict.fromkeys(wanted.only)) or allowed
        readable = self._readable([topic for topic in asked if users[topic] is not None])
        unreadable = frozenset(asked) - readable.keys()
        if wanted.only and unreadable:
            raise ConfigurationError(
                f"This user may not read the topic {min(unreadable)!r} (see --topic): it needs "
                "the rights Describe and Read."
            )
        targets = {topic: users[topic] or 0 for topic in readable}
        compacted, unclear = self._compacted(sorted(targets))
        reach = _matching(users, wanted.reach) if wanted.reach else allowed
        return Targets(
            targets,
            set(reach) <= targets.keys(),
            unreadable,
            compacted,
            unclear,
            {topic: known[topic] or 0 for topic in self._names.all},
        )

    def unread(self, topics: Collection[str]) -> dict[str, Unjudged]:
        """See verify.run.Logs."""
        known = self._listed()
        users = [topic for topic in topics if self._anywhere.refusal(topic) is None]
        known |= self._asked([topic for topic in users if topic not in known])
        there = [topic for topic in users if topic in known]
        readable = self._readable([topic for topic in there if known[topic] is not None])
        allowed = set(_matching(there, self._wanted.allow))
        found = dict.fromkeys(set(topics).difference(users), Unjudged.TARGET_IMPOSSIBLE)
        for topic in there:
            if known[topic] is None:
                found[topic] = Unjudged.TARGET_HIDDEN
            elif topic not in allowed:
                found[topic] = Unjudged.TARGET_OUTSIDE
            elif topic in readable:
                found[topic] = Unjudged.TARGET_NOT_READ
            else:
                found[topic] = Unjudged.TARGET_UNREADABLE
        return found

    # -- what Kafka says -------------------------------------------------------------------------

    def _listed(self) -> dict[str, int | None]:
        """All topics that are shown to this user."""
        try:
            found = self._admin.list_topics(timeout=self._wait_s).topics
        except KafkaException as error:
            raise KafkaUnavailable(f"Kafka does not answer: {describe(error)}.") from error
        return {t: len(m.partitions) if m.error is None else None for t, m in found.items()}

    def _asked(self, topics: Sequence[str]) -> dict[str, int | None]:
        """Of topics that are not listed: those that may be there all the same, without a number."""
        names = [topic for topic in topics if self._is_name(topic)]
        return {t: None for t, found in self._described(names).items() if found is _HIDDEN}

    def _is_name(self, topic: str) -> bool:
        return topic in self._names.all or self._anywhere.refusal(topic) is None

    def _readable(self, topics: Sequence[str]) -> dict[str, None]:
        found = self._described(topics)
        return {t: None for t in topics if found[t] is not _HIDDEN and _may_read(found[t])}

    def _described(self, topics: Sequence[str]) -> dict[str, Any]:
        """By topic: its description, None if it does not exist, _HIDDEN without the right to it."""
        if not topics:
            return {}
        futures = self._admin.describe_topics(
            TopicCollection(list(dict.fromkeys(topics))),
            include_authorized_operations=True,
            request_timeout=self._wait_s,
        )
        found: dict[str, Any] = {}
        for topic, future in futures.items():
            try:
                found[topic] = answer(future, self._wait_s, f"describe {topic}", _UNKNOWN)
            except ConfigurationError as error:
                if not _is_about_rights(error):
                    raise
                found[topic] = _HIDDEN
        return found

    def _compacted(self, topics: list[str]) -> tuple[dict[str, int], frozenset[str]]:
        """Those that are compacted, and how long each keeps the note that a key is gone; and those
        of which it may not be learned.
        """
        configs, refusal = topic_configs(self._admin, topics, self._wait_s)
        if refusal is not None:  # of one of them: then each is asked for by itself
            for topic in topics:
                configs |= topic_configs(self._admin, [topic], self._wait_s)[0]
        compacted = {
            topic: int(config.get("delete.retention.ms") or 0)
            for topic, config in configs.items()
            if "compact" in (config.get("cleanup.policy") or "")
        }
        return compacted, frozenset(topics) - configs.keys()

    # -- what is wrong with the question ---------------------------------------------------------

    def _check_internal(self, known: Mapping[str, int | None]) -> None:
        missing = [topic for topic in self._names.all if topic not in known]
        if missing:
            raise TopologyError(
                f"The topic {missing[0]} does not exist: is topics.prefix the sidecar's?"
            )
        shown = [topic for topic in self._names.all if known[topic] is not None]
        hidden = set(self._names.all) - self._readable(shown).keys()
        if hidden:
            raise TopologyError(
                f"This user may not read the topic {min(hidden)}: verify needs the rights Describe "
                "and Read for the internal topics and the targets."
            )

    def _check_patterns(self, users: Collection[str]) -> None:
        for pattern in self._wanted.needed:
            if not _matching(users, [pattern]):
                near = get_close_matches(pattern.strip("*"), users, n=1)
                hint = f" (did you mean {near[0]!r}?)" if near else ""
                raise ConfigurationError(
                    f"topics.allow has {pattern!r}, which matches no topic{hint}: what was "
                    "forwarded elsewhere would be taken for lost. Give verify the sidecar's "
                    "topics.allow, without what does not exist."
                )


_HIDDEN: Final = object()


def _is_about_rights(error: ConfigurationError) -> bool:
    cause = error.__cause__
    return isinstance(cause, KafkaException) and cause.args[0].code() == _NO_RIGHT


def _may_read(description: Any) -> bool:
    """Brokers without an authorizer allow everything, very old ones say nothing."""
    if description is None:
        return False  # it was deleted a moment ago
    allowed = description.authorized_operations
    return allowed is None or AclOperation.READ in allowed or AclOperation.ALL in allowed


def _matching(topics: Collection[str], patterns: Sequence[str]) -> list[str]:
    return [t for t in topics if any(fnmatchcase(t, pattern) for pattern in patterns)]
