"""Targets of an audit: those of the server, and sentences for what leads nowhere."""

from __future__ import annotations

import pytest

from halfhitch.errors import ConfigurationError
from halfhitch.service.topic_policy import TopicPolicy
from halfhitch.verify.account import Layout
from halfhitch.verify.report import Unjudged
from halfhitch.wire.topics import InternalTopics
from halfhitch_spark.audit.topics import is_possible, targets_among, why_unread

NAMES = InternalTopics("p.")
THERE = {**dict.fromkeys(NAMES.all, 4), "orders": 2, "points": 1, "__consumer_offsets": 50}


@pytest.mark.parametrize(
    "topic",
    ["orders", ".", "..", "", "a b", "a" * 250, "__consumer_offsets", "RMQ_SYS_X", "%DLQ%g",
     "%RETRY%g", "rmq_sys_y", "p.RMQ_SYS_TRANS_HALF_TOPIC", "p.RMQ_SYS_TRANS_AUDIT_TOPIC"],
)  # fmt: skip
def test_a_message_may_go_where_the_server_lets_it(topic: str) -> None:
    policy = TopicPolicy(internal_topics=InternalTopics("p.").reserved, allow=("*",))
    assert is_possible(NAMES, topic) == (policy.ban(topic) is None)


def test_targets_are_what_is_allowed_and_no_topic_of_our_own() -> None:
    assert targets_among(NAMES, THERE, ["*"], []) == ({"orders": 2, "points": 1}, True)
    assert targets_among(NAMES, THERE, ["ord*"], []) == ({"orders": 2}, True)
    assert targets_among(NAMES, THERE, ["*"], ["points"]) == ({"points": 1}, False)


@pytest.mark.parametrize(
    ("there", "allow", "only", "words"),
    [
        ({"orders": 1}, ["*"], [], "--topics-prefix"),
        (THERE, ["order"], [], "did you mean 'orders'"),
        (THERE, ["*"], ["nothing"], "--topic"),
        (THERE, ["*"], ["__consumer_offsets"], "does not exist"),
    ],
)
def test_what_leads_nowhere_is_a_sentence(
    there: dict[str, int], allow: list[str], only: list[str], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        targets_among(NAMES, there, allow, only)


def test_why_a_topic_was_not_read_is_known() -> None:
    layout = Layout(*NAMES.all, {"orders": 2})
    named = ["orders", "points", "other", "gone", "__x"]
    assert why_unread(NAMES, layout, named, {"orders", "points", "other"}, ["p*", "o*s"]) == {
        "points": Unjudged.TARGET_NOT_READ,
        "other": Unjudged.TARGET_OUTSIDE,
        "__x": Unjudged.TARGET_IMPOSSIBLE,
    }
