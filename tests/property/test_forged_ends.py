"""Whatever of an end is made up, it decides nothing; and what is echoed as it came does."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from halfhitch.adapters.memory import MemoryTopicCatalog
from halfhitch.doors.rocketmq import RocketmqDoor
from halfhitch.doors.rocketmq.offsets import commit_log_offset
from halfhitch.service.api import OutgoingMessage
from halfhitch.service.transactions.admission import Admission
from halfhitch.service.transactions.topic_directory import TopicDirectory
from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.frame import Frames, encode, request
from halfhitch.wire.remoting.requests import Form
from harness.coordinator import Coordinator
from harness.defaults import rocketmq_limits
from harness.fake_desk import FakeDesk

GROUP, UNIQUE = "shop", "order-777"
NUMBERS = (
    st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 3) | st.sampled_from([1 << 48, 1 << 60])
)
NAMES = st.sampled_from(["shop", "shop ", "bank", "", "order-777", "order-778", "é", "x" * 300])


class Asker:
    peer = ("127.0.0.1", 1)


async def asked(forged: dict[str, str], added: dict[str, int], form: Form) -> tuple[bool, Any]:
    """Whether the end says what a prepare was answered with, and what was decided by it."""
    it = Coordinator()
    policy, catalog = it.twin.policy, MemoryTopicCatalog(it.kafka)
    admission = Admission(policy=policy, catalog=catalog, message_bytes_max=10_000)
    desk = FakeDesk()
    door = RocketmqDoor(
        it.service,
        it.service.sends,
        TopicDirectory(policy, catalog, admission),
        wall_ms=it.twin.clock.wall_ms,
        desk=desk,
        limits=rocketmq_limits(),
    )
    message = OutgoingMessage("orders", b"k", b"mine", [])
    prepared = await it.service.prepare(
        producer_group=GROUP, messages=[message], transaction_id=UNIQUE
    )
    place = prepared.partition, prepared.half_offsets[0]
    own = {
        "producerGroup": GROUP,
        "tranStateTableOffset": str(it.handles.seals.make(*place, GROUP, UNIQUE)),
        "commitLogOffset": str(commit_log_offset(*place)),
        "transactionId": UNIQUE,
    }
    said = {**own, "commitOrRollback": "12", "msgId": "M", **forged}
    for name, number in added.items():
        said[name] = str(int(own[name]) + number)
    is_own = all(said[name] == value for name, value in own.items())
    (frame,) = Frames().feed(encode(request(codes.END_TRANSACTION, 1, said, form=form)))
    answer = door._dispatcher.admit(frame, Asker())  # type: ignore[arg-type]
    if answer is not None and not isinstance(answer, bytes):
        answer = await door._dispatcher.answer(frame, answer)
    assert isinstance(answer, bytes)
    return is_own, (it.decided(), desk.settled)


@settings(max_examples=200, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "producerGroup": NAMES,
            "transactionId": NAMES,
            "msgId": NAMES,
            "tranStateTableOffset": NUMBERS.map(str),
            "commitLogOffset": NUMBERS.map(str),
            "fromTransactionCheck": st.sampled_from(["true", "false"]),
            "commitOrRollback": st.sampled_from(["0", "8", "12"]),
        },
    ),
    st.dictionaries(
        st.sampled_from(["tranStateTableOffset", "commitLogOffset"]),
        st.sampled_from([-1, 1, 1 << 47, 1 << 48]),
        max_size=1,
    ),
    st.sampled_from(list(Form)),
)
def test_an_end_of_which_anything_is_made_up_decides_nothing(
    forged: dict[str, str], added: dict[str, int], form: Form
) -> None:
    is_own, (decided, settled) = asyncio.run(asked(forged, added, form))
    if not is_own:
        assert (decided, settled) == ([], [])
    elif forged.get("commitOrRollback") == "0":
        assert decided == []
        assert len(settled) == (forged.get("fromTransactionCheck") == "true")
    else:
        assert len(decided) == 1
