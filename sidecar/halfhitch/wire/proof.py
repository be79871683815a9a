"""Proofs in the op log: which pair of watermarks an owner's step has committed.

A proof is an op record with tag `o` and no entry; its key is the version and the pair, as text:

    1;half watermark;op watermark

It lies in the same Kafka transaction as the watermarks, so whoever reads it knows that the pair was
committed. It is a record of its own because releases that know nothing of it take an op record with
a third header for garbage; of a note without entries they do nothing, and at its key they do not
look.
"""

from typing import Final

from halfhitch.wire import headers as names
from halfhitch.wire.half import DIGITS_MAX, Headers
from halfhitch.wire.op import TAG_NOTE, StepRecord, write

_VERSION: Final = b"1"


def write_proof(half_watermark: int, op_watermark: int) -> StepRecord:
    """To be written with the step that commits this pair."""
    value, headers = write(TAG_NOTE, (), ())
    return StepRecord(value, headers, b"%b;%d;%d" % (_VERSION, half_watermark, op_watermark))


def read_proof(
    op_offset: int, headers: Headers | None, key: bytes | None
) -> tuple[int, int] | None:
    """The pair that a committed op record proves; None for any other record.

    No step commits an op watermark beyond its own record: what says so is not ours.
    """
    if not key or not headers or tuple(headers[0]) != (names.TAGS, TAG_NOTE):
        return None
    version, *numbers = key.split(b";")
    if version != _VERSION or len(numbers) != 2:
        return None
    if not all(number.isdigit() and len(number) <= DIGITS_MAX for number in numbers):
        return None
    half_watermark, op_watermark = map(int, numbers)
    return (half_watermark, op_watermark) if op_watermark <= op_offset else None
