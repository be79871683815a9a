"""The rights, and the caller: whoever a door has in front of it, as far as he is known.

Owns `Caller`. Doors ask it before they ask the service, at every place where a producer group or a
topic is named; who may do everything is known by `is_free`, and is asked nothing more. A refusal
names the identity, the right that is missing and the group or topic as the caller has named it. It
is the same whether a transaction exists or not, for nothing was looked up before it.

What was decided is remembered in a table of the caller's own, so that nobody's names push out those
of another one.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from fnmatch import translate
from typing import Final

from halfhitch.access.allowance import Allowance
from halfhitch.errors import Forbidden

#: Groups and topics that are remembered for one caller, and then forgotten all at once.
_REMEMBERED_MAX: Final = 1_024
#: No group and no topic can be longer: such a name is refused unseen, and never remembered.
_GROUP_CHARACTERS_MAX: Final = 255
_TOPIC_CHARACTERS_MAX: Final = 249
_SHOWN_CHARACTERS_MAX: Final = 100
_ADVICE: Final = "whoever keeps the file of auth.identities_file can grant it"


class Right(StrEnum):
    """What an identity may do."""

    PRODUCE = "produce"  # prepare, add, end what was prepared; send single messages
    CHECK = "check"  # be asked what became of a transaction, with its messages, and answer
    OBSERVE = "observe"  # see what is undecided or parked, without contents; the instance's state
    OPERATE = "operate"  # decide, check, see contents, put back; observe as well
    ADMIN = "admin"  # everything, for all groups and topics


_IMPLIED: Final = {Right.OPERATE: frozenset({Right.OBSERVE}), Right.ADMIN: frozenset(Right)}
_WORDS: Final = {
    Right.PRODUCE: "produce for",
    Right.CHECK: "answer checks of",
    Right.OBSERVE: "observe",
    Right.OPERATE: "operate on",
}


def _tell_nobody(_: Right) -> None:
    """Nobody counts."""


class Caller:
    """One identity by one of its proofs. Asked on the event loop, and by readers on any thread."""

    __slots__ = (
        "_groups",
        "_known_groups",
        "_known_topics",
        "_refused",
        "_topics",
        "allowance",
        "is_free",
        "name",
        "proof",
        "rights",
        "sees_all",
    )

    def __init__(
        self,
        name: str | None,
        rights: Iterable[Right],
        *,
        groups: Sequence[str] = (),
        topics: Sequence[str] = (),
        proof: tuple[str, bytes] = ("", b""),
        refused: Callable[[Right], None] = _tell_nobody,
        allowance: Allowance | None = None,
    ) -> None:
        """`name` None: nobody is told apart. `refused` is told of every right that was missing."""
        #: Of requests in a second, shared by all of the identity's; None: as many as come.
        self.allowance = allowance
        given = frozenset(rights)
        self.name = name
        self.rights = given.union(*(_IMPLIED.get(right, frozenset()) for right in given))
        #: May do everything, with every group and every topic.
        self.is_free = Right.ADMIN in given
        #: May see the numbers of all groups together.
        self.sees_all = self.is_free or (Right.OBSERVE in self.rights and "*" in groups)
        #: By what it was known, so that it can be asked whether that still holds.
        self.proof = proof
        self._groups = _matcher(groups)
        self._topics = _matcher(topics)
        self._known_groups: dict[str, bool] = {}
        self._known_topics: dict[str, bool] = {}
        self._refused = refused

    def may(self, right: Right, group: str) -> bool:
        """Whether it has this right for this producer group."""
        if self.is_free:
            return True
        return (
            right in self.rights
            and len(group) <= _GROUP_CHARACTERS_MAX
            and _known(self._known_groups, self._groups, group)
        )

    def may_send_to(self, topic: str) -> bool:
        """Whether it may produce to this topic, for the groups that it may produce for."""
        if self.is_free:
            return True
        return (
            Right.PRODUCE in self.rights
            and len(topic) <= _TOPIC_CHARACTERS_MAX
            and _known(self._known_topics, self._topics, topic)
        )

    def require(self, right: Right, group: str) -> None:
        """Raises Forbidden."""
        if not self.may(right, group):
            self._refused(right)
            raise Forbidden(
                f"identity {self.name!r} has no right {right.value!r} for producer group "
                f"{_shown(group)}, so it may not {_WORDS[right]} that group: {_ADVICE}"
            )

    def require_produce(self, group: str, topics: Iterable[str]) -> None:
        """Raises Forbidden."""
        self.require(Right.PRODUCE, group)
        for topic in topics:
            self.require_topic(topic)

    def require_topic(self, topic: str) -> None:
        """Raises Forbidden."""
        if not self.may_send_to(topic):
            self._refused(Right.PRODUCE)
            raise Forbidden(
                f"identity {self.name!r} has no right {Right.PRODUCE.value!r} for topic "
                f"{_shown(topic)}: {_ADVICE}"
            )

    def require_any(self, rights: Sequence[Right], group: str) -> None:
        """One of them is enough. Raises Forbidden, which names the first."""
        if not any(self.may(right, group) for right in rights):
            self.require(rights[0], group)

    def require_somewhere(self, right: Right) -> None:
        """For any group at all: what is shown is what it may see of it. Raises Forbidden."""
        if right not in self.rights:
            self._refused(right)
            raise Forbidden(
                f"identity {self.name!r} has no right {right.value!r}, for no group: {_ADVICE}"
            )

    def require_all(self) -> None:
        """To see what tells of all groups. Raises Forbidden."""
        if not self.sees_all:
            self._refused(Right.OBSERVE)
            raise Forbidden(
                f"identity {self.name!r} has no right 'observe' for all producer groups "
                f'(groups = ["*"]), and this tells of all of them: {_ADVICE}'
            )

    def require_admin(self) -> None:
        """Raises Forbidden."""
        if not self.is_free:
            self._refused(Right.ADMIN)
            raise Forbidden(f"identity {self.name!r} has no right 'admin': {_ADVICE}")


def _matcher(patterns: Sequence[str]) -> Callable[[str], object]:
    """One expression for all of them; it takes the time of the text, not of their number alone."""
    if not patterns:
        return lambda _: None
    return re.compile("|".join(translate(pattern) for pattern in patterns)).match


def _known(known: dict[str, bool], matches: Callable[[str], object], text: str) -> bool:
    found = known.get(text)
    if found is None:
        if len(known) >= _REMEMBERED_MAX:
            known.clear()
        found = known[text] = matches(text) is not None
    return found


def _shown(text: str) -> str:
    shown = ascii(text[:_SHOWN_CHARACTERS_MAX])
    if len(text) <= _GROUP_CHARACTERS_MAX:
        return shown
    return f"{shown}... ({len(text)} characters, more than any name has)"


#: Where nobody is told apart: no identities are configured.
EVERYBODY: Final = Caller(None, (Right.ADMIN,))
