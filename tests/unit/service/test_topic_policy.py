"""Which topics a message may go to."""

from __future__ import annotations

import pytest

from halfhitch.errors import ForbiddenTopic
from halfhitch.service.topic_policy import TopicPolicy

INTERNAL = ("dev-HALF", "dev-OP")


def policy(*allow: str) -> TopicPolicy:
    return TopicPolicy(internal_topics=INTERNAL, allow=allow or ("*",))


@pytest.mark.parametrize("topic", ["orders", "a", "A.b-c_9", "x" * 249, "...", "_one"])
def test_an_ordinary_topic_is_allowed(topic: str) -> None:
    assert policy().refusal(topic) is None
    policy().check(topic)


@pytest.mark.parametrize(
    "topic",
    ["", ".", "..", "x" * 250, "a b", "a/b", "../x", "ä", "a\n", "a\x00", "\ud800", "orders\u00a0"],
)
def test_what_is_no_topic_name_is_refused(topic: str) -> None:
    with pytest.raises(ForbiddenTopic, match="not a topic name"):
        policy().check(topic)


@pytest.mark.parametrize(
    "topic",
    [
        "__consumer_offsets",
        "__transaction_state",
        "__anything",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "rmq_sys_x",
        *INTERNAL,
    ],
)
def test_internal_topics_are_refused_whatever_the_list_says(topic: str) -> None:
    for allowed in (policy(), policy(topic)):
        with pytest.raises(ForbiddenTopic, match="internal"):
            allowed.check(topic)


@pytest.mark.parametrize("topic", ["%RETRY%group", "%DLQ%group"])
def test_names_that_only_rocketmq_could_have_are_refused(topic: str) -> None:
    with pytest.raises(ForbiddenTopic):
        policy().check(topic)


def test_only_what_is_on_the_list_is_allowed_and_the_answer_says_what_to_do() -> None:
    allowed = policy("orders", "shop.*")
    for topic in ("orders", "shop.", "shop.a.b"):
        assert allowed.refusal(topic) is None
    for topic in ("Orders", "orders2", "shop", "points"):
        with pytest.raises(ForbiddenTopic, match=r"topics\.allow"):
            allowed.check(topic)


def test_an_answer_does_not_change_when_it_is_asked_again() -> None:
    allowed = policy("orders")
    assert allowed.refusal("points") == allowed.refusal("points") != allowed.refusal("orders")


def test_texts_that_are_too_long_for_a_topic_are_not_remembered() -> None:
    """Some thousand of a megabyte each would fill the memory, though each is refused."""
    asked = policy("x*")
    for answers in (asked.refusal.__self__, asked.ban.__self__):  # type: ignore[attr-defined]
        assert "not a topic name" in answers["x" * 250]
        assert not answers
        assert answers["x" * 249] is None
        for number in range(5_000):
            assert answers[f"x{number}"] is None
        assert 0 < len(answers) <= 4_096
