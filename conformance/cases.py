"""What each case is called, and which differences from RocketMQ are meant.

Owns `CASES`. A difference that is not named here is a finding: it makes the comparison red. The
names are those the Java cases give their records; fields that end in Ms are times, not compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Verdict(Enum):
    """How Half Hitch does beside RocketMQ, in one field or in a whole case."""

    EQUAL = "equal"
    BETTER = "better on purpose"
    ELSE = "different on purpose"
    WORSE = "worse"


@dataclass(frozen=True, slots=True)
class Difference:
    """Why a field differs, or may differ from run to run."""

    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True)
class Case:
    """One case. `differences` by field; `varies`: fields whose value is not the same each time."""

    title: str
    differences: dict[str, Difference] = field(default_factory=dict)
    varies: frozenset[str] = frozenset()


def _better(reason: str) -> Difference:
    return Difference(Verdict.BETTER, reason)


def _else(reason: str) -> Difference:
    return Difference(Verdict.ELSE, reason)


def _worse(reason: str) -> Difference:
    return Difference(Verdict.WORSE, reason)


_ONCE = _better("forwarding and its done mark are one Kafka transaction, so nothing is doubled")
_DUE = _better("a decision is known before the next check is due; it does not wait in a batch")
_COUNTED = _better("checks are counted only when a producer got them")
_FIRST_WINS = _better("the first decision wins, later ones are recorded as conflicts")
_NO_SYSTEM = _else(
    "readers get the application's properties; those of the transaction have other names"
)
_LIMIT = _else(
    "the limit is a setting for key, value and headers together; here it is a bit higher"
)
_REFUSED = _better("an end that contradicts a known decision is refused (604)")

CASES: dict[str, Case] = {
    "five-outcomes": Case(
        "120 messages: committed, rolled back, unknown then committed or rolled back in a check, "
        "never answered",
        {
            "visible": _ONCE,
            "doubled": _ONCE,
            **{
                f"checks, {kind}": _DUE
                for kind in (
                    "committed",
                    "rolled back",
                    "committed in check",
                    "rolled back in check",
                    "never answered",
                )
            },
        },
    ),
    "exception-in-execute": Case(
        "the local transaction throws, or says null: unknown, checked, committed",
        {"checks": _DUE, "visible": _ONCE},
    ),
    "exception-in-check": Case(
        "a check throws, or says null: checked again",
        {"checks": _DUE, "numbers in checks": _DUE, "visible": _ONCE},
    ),
    "several-producers": Case(
        "three producers of a group: any of them answers a check",
        {"checks": _DUE, "doubled": _ONCE},
    ),
    "several-topics": Case("one producer, three topics"),
    "commit-twice": Case("committed twice", {"copies visible": _FIRST_WINS}),
    "commit-after-rollback": Case(
        "committed after it was rolled back", {"copies visible": _FIRST_WINS}
    ),
    "rollback-after-commit": Case("rolled back after it was committed"),
    "late-commit": Case(
        "a check answered with unknown, then a commit with the first address",
        {
            "checks after it was visible": _better(
                "a transaction has an identity, not the address of one of its copies"
            ),
            "copies visible": _FIRST_WINS,
        },
    ),
    "end-that-asks": Case(
        "an end that asks for an answer (codes: 0 done, 1 refused)",
        {
            "unknown": _better("an end that asks for an answer gets one"),
            "copies visible": _FIRST_WINS,
            "commit after rollback": _REFUSED,
            "rollback after commit": _REFUSED,
        },
    ),
    "message-in-check": Case(
        "what a check carries: body, tags, keys, properties, flag, ids, number",
        {"flag in the second check": _better("the flag is kept from check to check")},
    ),
    "immunity": Case(
        "CHECK_IMMUNITY_TIME_IN_SECONDS=10: the first check",
        {
            "number in the first check": _better(
                "a check counts once it was delivered; nothing is counted or stored before"
            )
        },
        varies=frozenset({"number in the first check"}),
    ),
    "commit-within-immunity": Case(
        "committed after some check passes, within a long immunity",
        {
            "checks": _better("a commit ends the checks, whatever the address it carries"),
            "visible": _ONCE,
        },
    ),
    "producer-restart": Case(
        "the producer is restarted between message and check",
        {"checks after the restart": _DUE, "doubled": _ONCE},
    ),
    "group-away": Case(
        "no producer of the group for longer than all its checks take, then one commits",
        {
            "visible of 10": _COUNTED,
            "numbers in checks": _COUNTED,
        },
    ),
    "bodies-zlib": Case("bodies of 1 B to 900 kB, compressed by the client with zlib"),
    "bodies-lz4": Case("the same with LZ4 (clients since 5.0)"),
    "bodies-zstd": Case("the same with Zstandard (clients since 5.0)"),
    "bodies-large": Case(
        "bodies of 3 MiB, 4 MiB and a byte more (limits set to RocketMQ's)",
        {"4194304 bytes": _LIMIT, "visible": _LIMIT},
    ),
    "properties": Case(
        "tags, keys, user properties in any language",
        {
            "message id": _NO_SYSTEM,
            "properties": _NO_SYSTEM,
            "the transaction's own properties": _NO_SYSTEM,
        },
    ),
    "delay-level": Case(
        "a delay level on a transactional message (client 5.5 refuses it, older ones drop it)"
    ),
    "timer": Case(
        "a time of delivery (TIMER_DELAY_SEC) on a transactional message (client 5.5 refuses it)",
        {
            "outcome": _better("refused with a reason instead of taken"),
            "visible within 12 s": _better("refused, so nothing may be visible"),
        },
    ),
    "plain-sends": Case("without a transaction: sync, async, one-way, batch"),
    "chosen-queue": Case("a chosen queue is kept, and is in order"),
    "queue-of-a-transaction": Case("a transaction's message lies in the queue its answer named"),
    "many-queues": Case("a topic of 16 queues: all are used"),
    "unknown-topic": Case(
        "a topic that is not there",
        {
            "outcome": _else(
                "topics are not created by a misspelt name; rocketmq.create_topics does it"
            )
        },
    ),
    "tracing": Case("message tracing is on in the client"),
    "server-restart": Case(
        "the server is restarted in good order: 20 committed, 20 unknown messages",
        {"doubled": _ONCE, "checks of committed ones": _DUE, "visible of 40": _COUNTED},
        varies=frozenset({"checks of committed ones"}),
    ),
    "server-killed": Case(
        "the server is killed and started again: the same",
        {"doubled": _ONCE, "checks of committed ones": _DUE, "visible of 40": _COUNTED},
        varies=frozenset({"checks of committed ones"}),
    ),
    "server-restart-between": Case(
        "the server is killed and started again during the local transaction", {"doubled": _ONCE}
    ),
    "spring": Case(
        "RocketMQTemplate and @RocketMQTransactionListener: commit, rollback, unknown, exception, "
        "a plain send",
        {"visible": _ONCE},
    ),
}
