"""What must have become of every transaction, computed from a recorded copy of the logs alone.

Independent on purpose: it parses the documented record forms itself and shares no code with the
coordinator. It goes through both logs once, in offset order for each half partition, and asks each
question in the simplest way.

A transaction that was parked and put back has several lives; the fence in its halves tells which
decisions belong to which. Nothing here looks at targets, clients or the clock.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chaos.kit.history import Identity, Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from chaos.kit.readers import Seen

#: A decision that names no half of a transaction counts for it only if the first half was stored at
#: most this long after it.
EARLY_MS = 60_000

COMMIT, ROLLBACK, GIVE_UP = "c", "r", "p"
UNDELIVERABLE, GIVEN_UP, COPIED = -1, -2, -3  # endings in done marks that are no count

_HALF_HEADERS = ("HALFHITCH", "UNIQ_KEY", "PGROUP", "REAL_TOPIC", "TRAN_MSG")
_OPTIONS = (
    "REAL_QID",
    "CHECK_IMMUNITY_TIME_IN_SECONDS",
    "TRANSACTION_CHECK_TIMES",
    "TRAN_PREPARED_QUEUE_OFFSET",
    "HALFHITCH_COPY",
)


@dataclass(frozen=True, slots=True)
class Half:
    """A half record."""

    identity: Identity
    index: int
    message: Message
    partition: int
    half_offset: int
    stored_ms: int
    check_count: int = 0
    first_stored_ms: int | None = None  # of a copy
    life: int = 0
    fence: int = -1
    born: str | None = None
    born_count: int = 0


@dataclass(frozen=True, slots=True)
class Decision:
    """An entry of an op record with tag c, r or p."""

    identity: Identity
    tag: str
    covered_count: int
    source: str
    partition: int
    op_offset: int
    entry: int  # its place in the record: several may share one
    stored_ms: int
    half_hint: int


@dataclass(frozen=True, slots=True)
class Done:
    """An entry of an op record with tag d."""

    identity: Identity
    ending: int
    half_offsets: tuple[int, ...]
    partition: int
    op_offset: int
    stored_ms: int


@dataclass(slots=True)
class Life:
    """From a prepare, or from being put back, to an ending."""

    number: int
    halves: list[Half] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    done: list[Done] = field(default_factory=list)

    @property
    def firsts(self) -> dict[int, Half]:
        """The first copy of each message."""
        result: dict[int, Half] = {}
        for half in self.halves:
            result.setdefault(half.index, half)
        return result

    @property
    def winner(self) -> Decision | None:
        """The first decision in the op log that is meant for it."""
        if not self.halves:
            return None
        first = self.halves[0]
        if first.born is not None:  # put back as what it had been decided before
            at = (first.partition, first.fence, 0, first.stored_ms, first.half_offset)
            return Decision(first.identity, first.born, first.born_count, "operator", *at)
        for decision in self.decisions:
            is_named = decision.half_hint >= first.half_offset
            if is_named or first.stored_ms <= decision.stored_ms + EARLY_MS:
                return decision
        return None

    @property
    def endings(self) -> list[int]:
        """What the done marks say of how it ended; clearing away older copies says nothing."""
        return [mark.ending for mark in self.done if mark.ending != COPIED]

    @property
    def covered_count(self) -> int:
        """How many messages it was committed with: what its done mark has fixed, or what it says.

        Never fewer than the winner covers.
        """
        winner = self.winner
        covered = 0 if winner is None else winner.covered_count
        return max([covered, *(ending for ending in self.endings if ending > 0)])

    @property
    def covered_max(self) -> int:
        """How many it may be committed with at most.

        A producer's commit covers what its handle counts, and of equal ones the largest counts;
        anybody else's means all that lies in the half log.
        """
        winner = self.winner
        if winner is None:
            return 0
        commits = [winner, *(d for d in self.decisions if d.tag == COMMIT)]
        if any(decision.source != "producer" for decision in commits):
            return max(self.firsts, default=-1) + 1
        return max(decision.covered_count for decision in commits)

    @property
    def is_whole(self) -> bool:
        """Whether everything is there that its commit covers."""
        return self.winner is not None and all(i in self.firsts for i in range(self.covered_count))

    @property
    def state(self) -> str:
        """committed, rolled_back, parked, incomplete, pending."""
        winner = self.winner
        if winner is None:
            return "pending"
        if winner.tag == ROLLBACK:
            return "rolled_back"
        if winner.tag == GIVE_UP or UNDELIVERABLE in self.endings:
            return "parked"
        return "committed" if self.is_whole else "incomplete"

    @property
    def expected(self) -> dict[int, Message]:
        """What must be in the targets, by index."""
        winner = self.winner
        if winner is None or self.state != "committed":
            return {}
        firsts = self.firsts
        return {index: firsts[index].message for index in range(self.covered_count)}

    @property
    def marked(self) -> frozenset[int]:
        """Half offsets that need nothing more."""
        return frozenset(o for mark in self.done for o in mark.half_offsets)

    @property
    def is_carried_out(self) -> bool:
        """Whether its ending is on record."""
        return bool(self.endings)


@dataclass(slots=True)
class Account:
    """All that the logs say of one transaction."""

    identity: Identity
    lives: dict[int, Life] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)  # of all lives, and early ones
    done: list[Done] = field(default_factory=list)
    conflict_count: int = 0

    @property
    def last(self) -> Life:
        """The life that counts now."""
        return self.lives[max(self.lives)] if self.lives else Life(0)

    @property
    def state(self) -> str:
        """Of the last life; unseen without any half."""
        return self.last.state if self.lives else "unseen"

    @property
    def winner(self) -> Decision | None:
        """Of the last life."""
        return self.last.winner


class LogModel:
    """Built from what a recorder has kept of the half and the op topic."""

    def __init__(self, half: Iterable[Seen], op: Iterable[Seen]) -> None:
        self.accounts: dict[Identity, Account] = {}
        self.garbage: list[str] = []
        self.copied_count = self.conflict_count = 0
        for seen in _in_order(half):
            self._half(seen)
        for seen in _in_order(op):
            self._op(seen)
        for account in self.accounts.values():
            _divide(account)

    def halves(self) -> Iterator[Half]:
        """All of them."""
        for account in self.accounts.values():
            for life in account.lives.values():
                yield from life.halves

    def _of(self, identity: Identity) -> Account:
        return self.accounts.setdefault(identity, Account(identity))

    def _half(self, seen: Seen) -> None:
        try:
            half = read_half(seen)
        except (ValueError, IndexError, AttributeError, TypeError) as error:
            self.garbage.append(f"{seen.place}: {error}")
            return
        self.copied_count += half.first_stored_ms is not None
        lives = self._of(half.identity).lives
        lives.setdefault(half.life, Life(half.life)).halves.append(half)

    def _op(self, seen: Seen) -> None:
        try:
            entries = read_op(seen)
        except (ValueError, IndexError, AttributeError, TypeError) as error:
            self.garbage.append(f"{seen.place}: {error}")
            return
        for entry in entries:
            if isinstance(entry, Decision):
                self._of(entry.identity).decisions.append(entry)
            elif isinstance(entry, Done):
                self._of(entry.identity).done.append(entry)
            else:
                self.conflict_count += 1
                self._of(entry).conflict_count += 1


def _in_order(records: Iterable[Seen]) -> list[Seen]:
    return sorted(records, key=lambda seen: (seen.partition, seen.log_offset))


def _divide(account: Account) -> None:
    """A life's decisions lie between its own fence and that of the next one."""
    numbers = sorted(account.lives)
    for number, following in zip(numbers, [*numbers[1:], None], strict=False):
        life = account.lives[number]
        begins = life.halves[0].fence if number else -1
        ends = None if following is None else account.lives[following].halves[0].fence
        life.decisions = [
            d
            for d in account.decisions
            if d.partition == life.halves[0].partition  # elsewhere it is a stranger's
            and d.op_offset > begins
            and (ends is None or d.op_offset <= ends)
        ]
        own = {half.half_offset for half in life.halves}
        life.done = [
            mark
            for mark in account.done
            if mark.partition == life.halves[0].partition and own.intersection(mark.half_offsets)
        ]


# -- the record forms ----------------------------------------------------------------------------


def read_half(seen: Seen) -> Half:
    """Five headers in a fixed order, then options, then the user's own."""
    headers = seen.headers
    if tuple(name for name, _ in headers[:5]) != _HALF_HEADERS:
        raise ValueError("no half record: its first headers are not the five")
    marker, raw_id, raw_group, raw_topic, _ = (value or b"" for _, value in headers[:5])
    version, index, _, _ = marker.split(b";", 3)
    if version != b"1" or not raw_id or not raw_group:
        raise ValueError(f"no half record of version 1: {marker!r}")
    options: dict[str, bytes] = {}
    count = 5
    while count < len(headers) and headers[count][0] in _OPTIONS:
        options[headers[count][0]] = headers[count][1] or b""
        count += 1
    partition = options.get("REAL_QID")
    message = Message.of(
        raw_topic.decode(),
        seen.value,
        seen.key,
        partition=None if partition is None else int(partition),
        headers=headers[count:],
    )
    copy: dict[str, Any] = {}
    if "HALFHITCH_COPY" in options:
        first, *life = options["HALFHITCH_COPY"].split(b";")
        copy["first_stored_ms"] = int(first)
        if life:
            copy |= {"life": int(life[0]), "fence": int(life[1]), "born_count": int(life[3])}
            copy["born"] = life[2].decode() or None
    return Half(
        (raw_group.decode(), raw_id.decode()),
        int(index),
        message,
        seen.partition,
        seen.log_offset,
        seen.stored_ms,
        int(options.get("TRANSACTION_CHECK_TIMES", b"0")),
        **copy,
    )


def read_op(seen: Seen) -> Sequence[Decision | Done | Identity]:
    """Decisions and done marks; of a conflict only whose it is; of an operator's note nothing."""
    (tag_name, raw_tag), (body_name, body) = seen.headers
    if (tag_name, body_name) != ("TAGS", "HALFHITCH") or not body or body[:1] != b"1":
        raise ValueError("no op record of version 1")
    offsets = [int(part) for part in (seen.value or b"").split(b",") if part]
    tag, at = (raw_tag or b"").decode(), 0
    result: list[Decision | Done | Identity] = []
    for place, entry in enumerate(json.loads(body[1:])):
        identity = (entry[0], entry[1])
        where = (seen.partition, seen.log_offset)
        if tag == "o":
            continue
        count = entry[4] if tag == "x" else entry[3]
        named, at = offsets[at : at + count], at + count
        if tag == "d":
            result.append(Done(identity, entry[2], tuple(named), *where, seen.stored_ms))
        elif tag == "x":
            result.append(identity)
        elif tag in (COMMIT, ROLLBACK, GIVE_UP):
            more = (place, seen.stored_ms, max(named, default=-1))
            result.append(Decision(identity, tag, entry[2], entry[4], *where, *more))
        else:
            raise ValueError(f"unknown tag {tag!r}")
    if at != len(offsets):
        raise ValueError("the entries do not account for all offsets")
    return result


def identity_and_index(headers: Sequence[tuple[str, bytes | None]]) -> tuple[Identity, int] | None:
    """Of a forwarded record: its last three headers say which message it is."""
    names = tuple(name for name, _ in headers[-3:])
    if names != ("UNIQ_KEY", "PGROUP", "HALFHITCH"):
        return None
    raw_id, raw_group, marker = (value or b"" for _, value in headers[-3:])
    parts = marker.split(b";", 3)
    if len(parts) != 4 or parts[0] != b"1" or not parts[1].isdigit():
        return None
    return (raw_group.decode(), raw_id.decode()), int(parts[1])


def count_said(headers: Sequence[tuple[str, bytes | None]]) -> int:
    """Of a forwarded record: how many messages its transaction has, as it says; 0: it does not."""
    for part in (headers[-1][1] or b"").split(b";")[4:]:
        if part.startswith(b"n="):
            return int(part[2:])
    return 0


@dataclass(frozen=True, slots=True)
class ParkedNow:
    """The parked topic, folded."""

    #: What was parked, for each life of a transaction's place on the half log.
    messages: dict[Identity, list[tuple[Half, str]]]  # with the reason
    resumed: dict[Identity, int]  # how many times it was put back
    garbage: list[str]

    def count_of(self, identity: Identity) -> int:
        """How many messages of it were ever parked."""
        return len(self.messages.get(identity, ()))


def read_parked(records: Iterable[Seen]) -> ParkedNow:
    """Messages, and how often they were put back."""
    messages: dict[Identity, list[tuple[Half, str]]] = defaultdict(list)
    resumed: dict[Identity, int] = defaultdict(int)
    garbage = []
    for seen in _in_order(records):
        try:
            name, raw = seen.headers[-1]
            if name != "HALFHITCH_PARKED" or not raw or raw[:1] != b"1":
                raise ValueError("no parked record of version 1")
            said = json.loads(raw[1:])
            if said["kind"] == "message":
                half = read_half(seen.with_headers(seen.headers[:-1]))
                messages[half.identity].append((half, said["reason"]))
            elif said["kind"] == "resumed":
                resumed[said["producer_group"], said["transaction_id"]] += 1
        except (ValueError, IndexError, KeyError, TypeError) as error:
            garbage.append(f"{seen.place}: {error}")
    return ParkedNow(dict(messages), dict(resumed), garbage)
