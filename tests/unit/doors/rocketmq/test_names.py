"""Topics and groups with namespaces, as a client writes them and as Kafka does."""

from typing import Any

import pytest

from halfhitch.doors.rocketmq import names


class Asked:
    def __init__(self, **fields: str) -> None:
        self.fields = fields


@pytest.mark.parametrize(
    ("namespace", "topic", "in_kafka"),
    [
        (None, "orders", "orders"),
        (None, "shop%orders", "shop.orders"),
        ("shop", "orders", "shop.orders"),
        ("shop", "shop%orders", "shop.orders"),
        ("shop", "%RETRY%group", "%RETRY%group"),
        (None, "%RETRY%shop%group", "%RETRY%shop%group"),
        (None, "shop%", "shop%"),
    ],
)
def test_a_namespace_goes_before_the_topic_with_a_dot(
    namespace: str | None, topic: str, in_kafka: str
) -> None:
    assert names.kafka_topic(namespace, topic) == in_kafka


def test_the_field_counts_only_when_the_client_says_that_it_is_meant() -> None:
    said: Any = Asked(ns="shop", nsd="true")
    unsaid: Any = Asked(ns="shop")
    assert names.namespace_of(said) == "shop"
    assert names.namespace_of(unsaid) is None


@pytest.mark.parametrize("has_field", [True, False])
def test_a_client_that_is_asked_hears_the_names_that_it_wrote(has_field: bool) -> None:
    namespace, wrote = (
        ("shop", ("group", "orders")) if has_field else (None, ("shop%group", "shop%orders"))
    )
    group = names.group_of(namespace, wrote[0])
    topic = names.kafka_topic(namespace, wrote[1])
    assert (group, topic) == ("shop%group", "shop.orders")
    assert names.client_names(group, topic, has_field=has_field) == wrote


def test_without_a_namespace_nothing_is_changed() -> None:
    assert names.group_of(None, "group") == "group"
    assert names.client_names("group", "a.b", has_field=True) == ("group", "a.b")
    assert names.client_names("shop%group", "others.orders", has_field=False) == (
        "shop%group",
        "others.orders",
    )
