"""Proofs: read back as written, total, and nothing to whoever does not know them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfhitch.wire import op
from halfhitch.wire.op import NoteEntry
from halfhitch.wire.proof import read_proof, write_proof

PROOF = write_proof(17, 30)
HEADERS = PROOF.headers


def test_a_proof_names_the_pair_that_it_was_written_with() -> None:
    assert read_proof(31, HEADERS, PROOF.key) == (17, 30)
    assert (PROOF.value, HEADERS, PROOF.key) == (
        b"",
        [("TAGS", b"o"), ("HALFHITCH", b"1[]")],
        b"1;17;30",
    )


def test_whoever_does_not_know_proofs_reads_a_note_that_says_nothing() -> None:
    """Releases before it: with a third header it would be garbage, and a done mark lost."""
    assert op.read(31, 77, *PROOF) == []
    assert op.read(31, 77, PROOF.value, HEADERS) == []


def test_no_step_commits_an_op_watermark_beyond_its_own_record() -> None:
    assert read_proof(30, HEADERS, PROOF.key) == (17, 30)
    assert read_proof(29, HEADERS, PROOF.key) is None


@pytest.mark.parametrize(
    "key", [None, b"", b"1", b"1;17", b"1;17;30;9", b"2;17;30", b"1;-1;30", b"1;17;", b"1;17;a",
            b"1;1_7;30", b"1;" + b"1" * 30 + b";30", b"1;17; 30"],
)  # fmt: skip
def test_other_keys_prove_nothing(key: bytes | None) -> None:
    assert read_proof(99, HEADERS, key) is None


def test_other_records_prove_nothing_whatever_their_key() -> None:
    _, note = op.write(op.TAG_NOTE, [NoteEntry("g", "T", "resume", "ann", "why")], ())  # type: ignore[arg-type]
    assert read_proof(99, note, b"ann") is None
    _, done = op.write(op.TAG_DONE, [], ())
    assert read_proof(99, done, PROOF.key) is None
    assert read_proof(99, [], PROOF.key) is None
    assert read_proof(99, None, PROOF.key) is None


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1), st.integers(0, 1_000))
def test_every_pair_is_read_back(half_watermark: int, op_watermark: int, more: int) -> None:
    proof = write_proof(half_watermark, op_watermark)
    assert read_proof(op_watermark + more, proof.headers, proof.key) == (
        half_watermark,
        op_watermark,
    )


@given(st.binary(max_size=60))
def test_any_key_gives_a_pair_or_none(key: bytes) -> None:
    pair = read_proof(5, HEADERS, key)
    assert pair is None or 0 <= pair[1] <= 5
