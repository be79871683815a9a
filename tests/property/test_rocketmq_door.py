"""Whatever a client sends, the RocketMQ door answers or closes, and nothing is raised."""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from halfhitch.adapters.memory import MemoryTopicCatalog
from halfhitch.doors.rocketmq import RocketmqDoor, RocketmqOptions
from halfhitch.service.transactions.admission import Admission
from halfhitch.service.transactions.topic_directory import TopicDirectory
from halfhitch.wire.remoting.faults import FrameError
from halfhitch.wire.remoting.frame import Frames, encode, request
from halfhitch.wire.remoting.requests import Form
from harness.coordinator import Coordinator
from harness.defaults import rocketmq_limits
from harness.fake_desk import FakeDesk

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXTS = st.sampled_from(
    ["", "g", "orders", "nowhere", "a%orders", "%RETRY%g", "0", "4", "8", "12", "-1", "2147483647",
     "9223372036854775807", "99999999999999999999", "true", "\x00", "é",
     "x\x01y\x02TRAN_MSG\x01true"]
) | st.text(max_size=20)  # fmt: skip
NAMES = st.sampled_from(
    [*"abcdefghijklmn", "producerGroup", "topic", "queueId", "sysFlag", "properties", "clientID",
     "tranStateTableOffset", "commitLogOffset", "commitOrRollback", "fromTransactionCheck", "msgId",
     "transactionId", "nsd", "ns", "AccessKey", "Signature", "bornTimestamp", "flag"]
) | st.text(max_size=5)  # fmt: skip
CODES = st.sampled_from([10, 17, 30, 34, 35, 37, 39, 105, 106, 206, 310, 320]) | st.integers(
    -(2**15), 2**15 - 1
)
GOOD_HALF = {"a": "g", "b": "orders", "c": "TBW102", "d": "4", "e": "0", "f": "4", "g": "1",
             "h": "0", "i": "TRAN_MSG\x01true\x02UNIQ_KEY\x01U", "j": "0", "k": ""}  # fmt: skip
GOOD_END = {"producerGroup": "g", "tranStateTableOffset": "0", "commitLogOffset": "0",
            "commitOrRollback": "8", "transactionId": "U"}  # fmt: skip


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    fields = dict(draw(st.sampled_from([{}, GOOD_HALF, GOOD_END])))
    fields.update(draw(st.dictionaries(NAMES, TEXTS, max_size=4)))
    form = draw(st.sampled_from(list(Form)))
    made = request(
        draw(CODES),
        draw(st.integers(-(2**31) + 1, 2**31 - 1)),
        fields,
        draw(st.binary(max_size=60) | st.just(b'{"clientID":"c","producerDataSet":[]}')),
        flag=draw(st.sampled_from([0, 0, 2])),
        form=form,
    )
    content = bytearray(encode(made))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 3]))):  # a bit of damage
        content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
    return bytes(content)


class Log(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def errors_logged() -> Iterator[list[str]]:
    log, logger = Log(), logging.getLogger("halfhitch.doors.rocketmq")
    logger.addHandler(log)
    try:
        yield log.lines
    finally:
        logger.removeHandler(log)


async def answers_to(pieces: list[bytes]) -> tuple[int, list[int]]:
    """How many answers are due (-1: the stream is broken), and the numbers of those that came."""
    failures: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    it = Coordinator()
    policy, catalog = it.twin.policy, MemoryTopicCatalog(it.kafka)
    admission = Admission(policy=policy, catalog=catalog, message_bytes_max=10_000)
    door = RocketmqDoor(
        it.service,
        it.service.sends,
        TopicDirectory(policy, catalog, admission),
        wall_ms=it.twin.clock.wall_ms,
        desk=FakeDesk(),
        options=RocketmqOptions(port=0),
        limits=rocketmq_limits(),
    )
    await door.start()
    assert door.port is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    expected, ours, answered = 0, Frames(), Frames()
    opaques: list[int] = []
    try:
        for piece in pieces:
            writer.write(piece)
            expected += wanting_answers(ours, piece)
        is_whole = ours.broken is None and not ours.held_bytes
        if not is_whole:
            writer.write_eof()
        while not is_whole or len(opaques) < expected:
            data = await asyncio.wait_for(reader.read(65_536), 10)
            if not data:
                break
            opaques += [frame.opaque for frame in answered.feed(data)]
    except ConnectionError:
        assert not is_whole
    finally:
        writer.close()
        await door.stop(drain_s=5)
    assert failures == []
    assert door.snapshot().in_flight_count == 0
    return (expected if is_whole else -1), opaques


def wanting_answers(cut: Frames, piece: bytes) -> int:
    """How many requests that want an answer these bytes complete."""
    if cut.broken is not None:
        return 0
    try:
        return sum(not (frame.is_one_way or frame.is_response) for frame in cut.feed(piece))
    except FrameError:
        return 0


@settings(max_examples=150, deadline=None)
@given(st.lists(frames(), max_size=4))
def test_nothing_a_client_sends_is_raised_or_called_a_bug(pieces: list[bytes]) -> None:
    with errors_logged() as lines:
        expected, opaques = asyncio.run(answers_to(pieces))
    assert lines == []
    assert expected in (-1, len(opaques))
