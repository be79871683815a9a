"""What doors may be asked for: what a setting does not say follows from another one."""

from __future__ import annotations

from typing import Any

import pytest

from halfhitch.composition import http_limits, rocketmq_limits
from halfhitch.config import Purpose, Settings, load


def given(**changes: object) -> Settings:
    said = {key.replace("__", "."): value for key, value in changes.items()}
    return load({"kafka.bootstrap": "k:1", **said}, purpose=Purpose.TOOL)


@pytest.mark.parametrize(
    ("door", "limits_of"), [("http", http_limits), ("rocketmq", rocketmq_limits)]
)
def test_one_address_and_one_identity_leave_room_for_others(door: str, limits_of: Any) -> None:
    limits = limits_of(given(**{f"{door}__connections_max": 100}))
    assert limits.connection_count_max == 100
    assert limits.connection_peer_count_max == limits.connection_identity_count_max == 50
    changes = {f"{door}__connections_max": 100, f"{door}__connections_peer_max": 90}
    limits = limits_of(given(**changes))
    assert limits.connection_peer_count_max == limits.connection_identity_count_max == 90


def test_with_more_connections_there_is_room_for_more_producers() -> None:
    assert rocketmq_limits(given()).producer_count_max == 16_384
    limits = rocketmq_limits(given(rocketmq__connections_max=2_000))
    assert limits.producer_count_max == 2 * limits.producer_identity_count_max == 32_000


def test_a_message_of_the_full_size_passes_the_json_route_too() -> None:
    bytes_max = 900_000
    limits = http_limits(given(messages__bytes_max=bytes_max))
    assert limits.body_bytes_max > bytes_max * 4 // 3
    assert rocketmq_limits(given(messages__bytes_max=bytes_max)).body_bytes_max == bytes_max
