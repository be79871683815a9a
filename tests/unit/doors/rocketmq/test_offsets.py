"""Half partition and half offset as the numbers that clients echo back."""

from typing import Any

import pytest

from halfhitch.doors.rocketmq.offsets import (
    ForeignEnd,
    commit_log_offset,
    handle_of,
    require_seal,
)
from halfhitch.wire.remoting.faults import RemotingError
from halfhitch.wire.remoting.requests import End
from halfhitch.wire.seal import Seals

SEALS = Seals([b"a key that seals"])


def end_of(position: int, seal: int = 0, **more: Any) -> End:
    fields: dict[str, Any] = {
        "producer_group": "shop",
        "commit_or_rollback": 8,
        "from_check": False,
        "state_offset": seal,
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
    handle = handle_of(end_of(position), "shop")
    assert (handle.partition, handle.half_offsets, handle.transaction_id) == (
        partition,
        (half_offset,),
        "T1",
    )
    require_seal(SEALS, handle, SEALS.make(partition, half_offset, "shop", "T1"))


def test_a_position_that_no_half_can_have_is_refused() -> None:
    with pytest.raises(RemotingError, match="commitLogOffset -1 names no half message"):
        handle_of(end_of(-1), "shop")


@pytest.mark.parametrize("seal", [17, -1, 2**63 - 1])
def test_numbers_that_were_given_to_nobody_are_refused(seal: int) -> None:
    handle = handle_of(end_of(commit_log_offset(1, 17)), "shop")
    with pytest.raises(ForeignEnd, match="is not what the message of transaction 'T1'"):
        require_seal(SEALS, handle, seal)


def test_the_message_id_stands_for_a_transaction_id_that_is_missing_and_one_is_needed() -> None:
    position = commit_log_offset(0, 1)
    assert handle_of(end_of(position, transaction_id=None), "shop").transaction_id == "MSG"
    with pytest.raises(RemotingError, match="says which transaction is to end"):
        handle_of(end_of(position, transaction_id=None, message_id=""), "shop")
