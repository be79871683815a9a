"""Half partition and half offset as the numbers that clients echo back."""

from typing import Any

import pytest

from halfhitch.doors.rocketmq.offsets import commit_log_offset, handle_of
from halfhitch.wire.remoting.faults import RemotingError
from halfhitch.wire.remoting.requests import End


def end_of(position: int, half_offset: int, **more: Any) -> End:
    fields: dict[str, Any] = {
        "producer_group": "shop",
        "commit_or_rollback": 8,
        "from_check": False,
        "state_offset": half_offset,
        "commit_log_offset": position,
        "message_id": "MSG",
        "transaction_id": "T1",
        "topic": None,
        "broker_name": None,
        "namespace": None,
    }
    return End(**{**fields, **more})


@pytest.mark.parametrize(("partition", "half_offset"), [(0, 0), (3, 17), (255, 2**48 - 1)])
def test_what_is_echoed_names_the_message(partition: int, half_offset: int) -> None:
    position = commit_log_offset(partition, half_offset)
    assert 0 <= position < 2**63
    handle = handle_of(end_of(position, half_offset), "shop")
    assert (handle.partition, handle.half_offsets, handle.transaction_id) == (
        partition,
        (half_offset,),
        "T1",
    )


@pytest.mark.parametrize("position", [-1, commit_log_offset(1, 18)])
def test_numbers_that_contradict_each_other_are_refused(position: int) -> None:
    with pytest.raises(RemotingError, match="do not name one half message"):
        handle_of(end_of(position, 17), "shop")


def test_the_message_id_stands_for_a_transaction_id_that_is_missing_and_one_is_needed() -> None:
    position = commit_log_offset(0, 1)
    assert handle_of(end_of(position, 1, transaction_id=None), "shop").transaction_id == "MSG"
    with pytest.raises(RemotingError, match="says which transaction is to end"):
        handle_of(end_of(position, 1, transaction_id=None, message_id=""), "shop")
