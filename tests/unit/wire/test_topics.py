"""Names of topics: a contract with consumers, jobs and other releases."""

from __future__ import annotations

import pytest

from halfhitch.wire.topics import InternalTopics, is_name


@pytest.mark.parametrize("prefix", ["", "shop."])
def test_the_names_stay_as_other_releases_know_them(prefix: str) -> None:
    names = InternalTopics(prefix)
    assert names.all == (
        f"{prefix}RMQ_SYS_TRANS_HALF_TOPIC",
        f"{prefix}RMQ_SYS_TRANS_OP_HALF_TOPIC",
        f"{prefix}TRANS_CHECK_MAX_TIME_TOPIC",
    )
    assert names.reserved == (*names.all, f"{prefix}RMQ_SYS_TRANS_AUDIT_TOPIC")
    assert names.owner_group == f"{prefix}CID_RMQ_SYS_TRANS"
    assert names.bounds_group == f"{prefix}CID_RMQ_SYS_TRANS_BOUNDS"
    assert names.skips_group == f"{prefix}CID_RMQ_SYS_TRANS_SKIPS"


def test_a_name_is_what_kafka_takes() -> None:
    assert all(map(is_name, ["orders", "a" * 249, "A-b_c.1", "...", "__consumer_offsets"]))
    assert not any(map(is_name, ["", ".", "..", "a b", "a" * 250, "orders\n", "%DLQ%g", "ä"]))
