"""What the appends in memory do on a test's demand."""

from __future__ import annotations

import pytest

from halfhitch.adapters.memory import (
    AppendFault,
    MemoryKafka,
    MemoryRecordLog,
)
from halfhitch.errors import (
    KafkaUnavailable,
    MessageTooLarge,
    OutcomeUnknown,
)


@pytest.mark.parametrize(
    ("fault", "error", "is_stored"),
    [
        (AppendFault.REFUSED, KafkaUnavailable, False),
        (AppendFault.TOO_LARGE, MessageTooLarge, False),
        (AppendFault.LOST, OutcomeUnknown, False),
        (AppendFault.ANSWER_LOST, OutcomeUnknown, True),
    ],
)
async def test_a_fault_strikes_one_append_and_no_other(
    kafka: MemoryKafka, fault: AppendFault, error: type[Exception], is_stored: bool
) -> None:
    log = MemoryRecordLog(kafka)
    kafka.faults.appends = [None, fault]
    assert await log.append_op(0, b"first", []) == 0
    with pytest.raises(error):
        await log.append_op(0, b"struck", [])
    await log.append_op(0, b"last", [])
    stored = [record.value() for record in kafka.committed(kafka.op_topic)]
    assert stored == [b"first", *([b"struck"] if is_stored else []), b"last"]


async def test_an_answer_never_comes_before_the_loop_has_turned(kafka: MemoryKafka) -> None:
    future = MemoryRecordLog(kafka).append_half(0, None, b"v", [])
    assert not future.done()
    assert await future == 0
