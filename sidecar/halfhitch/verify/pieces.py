"""Facts that many have taken and others judge, for an audit that is spread over machines.

Each reader has an Account of its own, reads whole partitions, and gives its facts away in pieces:
one for each bucket of transactions. Pieces of one bucket, whoever took them, hold all that was read
of its transactions. The Account without its facts is small; all of them are joined to one that
every judge gets (`Account.join`).

Pure: no clock, no I/O.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from halfhitch.verify.account import Account
from halfhitch.verify.facts import BUCKET_COUNT, Decided, Facts, Known, facts_of, unpack

__all__ = ["BUCKET_COUNT", "Piece", "pieces_of", "rest_of", "transactions_of"]

_NO_TOPIC: Final = -1


@dataclass(frozen=True, slots=True)
class Piece:
    """Entries of one bucket. `order` is the same for the same topics, whoever ran when."""

    order: tuple[str, int, int]
    entries: bytes
    groups: tuple[bytes, ...]
    topics: tuple[str, ...]  # by the numbers that halves have for them
    decisions: tuple[tuple[tuple[bytes, bytes], list[Decided]], ...] = ()


def pieces_of(account: Account, order: tuple[str, int, int]) -> Iterator[tuple[int, Piece]]:
    """What was taken since the last time, by bucket: but for decisions, which wait for marks."""
    facts = account.facts
    groups, topics = facts.group_names, tuple(account.topics)
    for bucket, entries in facts.drained():
        yield bucket, Piece(order, entries, groups, topics)


def rest_of(account: Account, order: tuple[str, int, int]) -> Iterator[tuple[int, Piece]]:
    """What is left when the last record was taken."""
    yield from pieces_of(account, order)
    waiting: dict[int, list[tuple[tuple[bytes, bytes], list[Decided]]]] = {}
    for bucket, key, decisions in account.facts.waiting():
        waiting.setdefault(bucket, []).append((key, decisions))
    for bucket, decided in waiting.items():
        yield bucket, Piece(order, b"", (), (), tuple(decided))


def transactions_of(account: Account, pieces: Iterable[Piece]) -> Iterator[Facts]:
    """The transactions of one bucket; topics get the numbers that `account` has for them."""
    known: Known = {}
    for piece in sorted(pieces, key=lambda piece: piece.order):
        part: Known = {}
        numbers = [account.number_of(topic) for topic in piece.topics]
        unpack(piece.entries, piece.groups, part)
        for key, facts in part.items():
            _renumber(facts, numbers)
            _join(known, key, facts)
        for key, decisions in piece.decisions:
            facts_of(known, *key).decisions += decisions
    yield from known.values()


def _renumber(facts: Facts, numbers: list[int]) -> None:
    for half in facts.halves:
        if half.topic != _NO_TOPIC:
            half.topic = numbers[half.topic]


def _join(known: Known, key: tuple[bytes, bytes], facts: Facts) -> None:
    there = known.setdefault(key, facts)
    if there is facts:
        return
    there.forwards += facts.forwards
    there.dones += facts.dones
    there.halves += facts.halves
    there.dropped += facts.dropped
    there.commits += facts.commits
    there.parked += facts.parked
    there.resumed_count += facts.resumed_count
    there.reused_count += facts.reused_count
