"""The whole table of what errors of a Kafka transaction mean, each code with each set of flags."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from confluent_kafka import KafkaError

from halfhitch.adapters.kafka.error_table import (
    AWAY,
    MEANINGS,
    Action,
    ErrorClass,
    judge,
    judge_commit,
)
from halfhitch.adapters.kafka.errors import POISON, TOO_LARGE, TOPIC_REFUSED

E: Any = KafkaError
NOBODY_KNOWS_IT = 9_999
FATAL, ABORTABLE = ErrorClass.FATAL, ErrorClass.ABORTABLE
RETRIABLE, UNKNOWN = ErrorClass.RETRIABLE, ErrorClass.UNKNOWN


def error(
    code: int, *, fatal: bool = False, retriable: bool = False, requires_abort: bool = False
) -> KafkaError:
    return E(code, "why", fatal, retriable, requires_abort)


def flags() -> list[dict[str, bool]]:
    names = ("fatal", "retriable", "requires_abort")
    return [
        dict(zip(names, values, strict=True))
        for values in itertools.product((False, True), repeat=3)
    ]


@pytest.mark.parametrize(
    ("code", "kind", "action"),
    [
        # fatal
        (E._FENCED, FATAL, Action.RECREATE),
        (E.INVALID_PRODUCER_EPOCH, FATAL, Action.RECREATE),
        (E.PRODUCER_FENCED, FATAL, Action.RECREATE),
        (E.INVALID_TXN_STATE, FATAL, Action.RECREATE),
        (E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, FATAL, Action.RECREATE),
        (E.CLUSTER_AUTHORIZATION_FAILED, FATAL, Action.RECREATE),
        # abortable
        (E.ILLEGAL_GENERATION, ABORTABLE, Action.ABORT_AND_REJOIN),
        (E.UNKNOWN_MEMBER_ID, ABORTABLE, Action.ABORT_AND_REJOIN),
        (E.FENCED_INSTANCE_ID, ABORTABLE, Action.ABORT_AND_REJOIN),
        (E.STALE_MEMBER_EPOCH, ABORTABLE, Action.ABORT_AND_REJOIN),
        (E.UNKNOWN_PRODUCER_ID, ABORTABLE, Action.ABORT),
        (E.INVALID_PRODUCER_ID_MAPPING, ABORTABLE, Action.ABORT),
        (E.GROUP_AUTHORIZATION_FAILED, ABORTABLE, Action.ABORT),
        (E.TOPIC_AUTHORIZATION_FAILED, ABORTABLE, Action.ABORT_AND_PARK),
        (E.MSG_SIZE_TOO_LARGE, ABORTABLE, Action.ABORT_AND_PARK),
        (E.INVALID_RECORD, ABORTABLE, Action.ABORT_AND_PARK),
        (E.UNKNOWN_TOPIC_OR_PART, ABORTABLE, Action.ABORT_AND_PARK),
        (E._MSG_TIMED_OUT, ABORTABLE, Action.ABORT_AND_WAIT),
        # retriable
        (E._TIMED_OUT, RETRIABLE, Action.RESUME),
        (E.REQUEST_TIMED_OUT, RETRIABLE, Action.RESUME),
        (E.NOT_COORDINATOR, RETRIABLE, Action.RESUME),
        (E.COORDINATOR_NOT_AVAILABLE, RETRIABLE, Action.RESUME),
        (E.NOT_ENOUGH_REPLICAS, RETRIABLE, Action.RESUME),
        (E.UNSTABLE_OFFSET_COMMIT, RETRIABLE, Action.RESUME),
        (E.CONCURRENT_TRANSACTIONS, RETRIABLE, Action.RESUME),
        # nobody can say
        (E._CONFLICT, UNKNOWN, Action.TAKE_OVER),
        (E._INCONSISTENT, UNKNOWN, Action.TAKE_OVER),
    ],
)
def test_the_codes_that_matter_mean_what_they_must(
    code: int, kind: ErrorClass, action: Action
) -> None:
    meaning = judge(error(code))
    assert (meaning.kind, meaning.action) == (kind, action)


@pytest.mark.parametrize("code", [*MEANINGS, NOBODY_KNOWS_IT])
def test_before_the_commit_the_flags_of_librdkafka_are_never_overruled(code: int) -> None:
    for given in flags():
        kind = judge(error(code, **given)).kind
        if given["fatal"]:
            assert kind in (FATAL, UNKNOWN), "this producer can do nothing more"
        elif given["requires_abort"]:
            assert kind is ABORTABLE, "nothing but an abort is possible"
        elif code == NOBODY_KNOWS_IT:
            assert kind is (RETRIABLE if given["retriable"] else FATAL)
        else:
            assert kind is MEANINGS[code].kind


@pytest.mark.parametrize("code", [*MEANINGS, NOBODY_KNOWS_IT])
def test_after_the_commit_was_asked_for_nothing_is_guessed(code: int) -> None:
    for given in flags():
        kind = judge_commit(error(code, **given))
        assert kind is not FATAL, "a fenced producer's commit may have been carried out"
        if kind is ABORTABLE:
            assert given["requires_abort"]
            assert not given["fatal"]
        elif kind is RETRIABLE:
            assert given["retriable"]
            assert not given["fatal"]
            assert not given["requires_abort"]
        else:
            assert kind is UNKNOWN


def test_a_commit_that_timed_out_is_resumed_and_never_aborted() -> None:
    assert judge_commit(error(E._TIMED_OUT, retriable=True)) is RETRIABLE


def test_what_is_flagged_as_retriable_but_would_go_round_for_ever_is_not_repeated() -> None:
    assert judge(error(E._CONFLICT, retriable=True)).kind is UNKNOWN
    assert judge_commit(error(E._CONFLICT, retriable=True)) is UNKNOWN


def test_a_commit_that_succeeded_on_the_broker_but_failed_here_is_unknown() -> None:
    assert judge(error(E._INCONSISTENT, fatal=True)).kind is UNKNOWN
    for code in (E._INCONSISTENT, E._FATAL, E._FENCED, E.INVALID_TXN_STATE):
        assert judge_commit(error(code, fatal=True)) is UNKNOWN


def test_all_that_parks_a_message_is_in_the_table() -> None:
    parks = {code for code, m in MEANINGS.items() if m.action is Action.ABORT_AND_PARK}
    assert parks >= TOO_LARGE | TOPIC_REFUSED | POISON


def test_a_target_that_is_away_is_told_from_one_that_refuses() -> None:
    assert not AWAY & POISON
    assert {E._MSG_TIMED_OUT, E.NOT_ENOUGH_REPLICAS, E.LEADER_NOT_AVAILABLE} <= AWAY
    assert not {E._PURGE_QUEUE, E._PURGE_INFLIGHT} & AWAY, "those fell with another record"


def test_every_class_and_every_action_is_in_use() -> None:
    assert {meaning.kind for meaning in MEANINGS.values()} == set(ErrorClass)
    assert {meaning.action for meaning in MEANINGS.values()} == set(Action)
