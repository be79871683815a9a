"""Which topics a message may go to.

The door of an instance asks for `refusal`, its own list of allowed topics included. Whoever
forwards asks for `ban` only: another instance, with another list, may have taken the message, and
what was acknowledged and committed is forwarded. But not to anybody's internal topics, whoever has
written such a half record.
"""

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Final

from halfhitch.errors import ForbiddenTopic
from halfhitch.wire.topics import INTERNAL_PREFIXES, NAME_CHARACTERS_MAX, is_name

#: Answers that are remembered, and then forgotten all at once.
_REMEMBERED_MAX: Final = 4_096


class _Answers(dict[str, str | None]):
    """By topic. What is longer than any topic is answered each time: nobody's text fills it."""

    def __init__(self, answer: Callable[[str], str | None]) -> None:
        super().__init__()
        self._answer = answer

    def __missing__(self, topic: str) -> str | None:
        found = self._answer(topic)
        if len(topic) <= NAME_CHARACTERS_MAX:
            if len(self) >= _REMEMBERED_MAX:
                self.clear()
            self[topic] = found
        return found


class TopicPolicy:
    """Immutable; answers are cached because the same few topics are asked for again and again."""

    def __init__(self, *, internal_topics: Sequence[str], allow: Sequence[str]) -> None:
        self._internal = frozenset(internal_topics)
        self._allow = tuple(allow)
        #: Why the topic may not be written to, or None when it may. No method: asked for each
        #: message, and the cache alone answers without running Python code.
        self.refusal: Callable[[str], str | None] = _Answers(self._refusal).__getitem__
        #: Why no instance may ever write to it, or None.
        self.ban: Callable[[str], str | None] = _Answers(self._ban).__getitem__

    def check(self, topic: str) -> None:
        """Raise ForbiddenTopic when the topic may not be written to."""
        reason = self.refusal(topic)
        if reason is not None:
            raise ForbiddenTopic(reason)

    def _ban(self, topic: str) -> str | None:
        if not is_name(topic):
            return (
                f"{topic[:100]!r} is not a topic name: 1 to 249 letters, digits, dots, underscores "
                "and hyphens"
            )
        if topic in self._internal or topic.startswith(INTERNAL_PREFIXES):
            return f"{topic!r} is an internal topic; messages go to topics of your own"
        return None

    def _refusal(self, topic: str) -> str | None:
        banned = self._ban(topic)
        if banned is not None:
            return banned
        if not any(fnmatchcase(topic, pattern) for pattern in self._allow):
            return (
                f"{topic!r} is not on this coordinator's list of allowed topics "
                f"({', '.join(self._allow)}); ask its operator to add it to topics.allow"
            )
        return None
