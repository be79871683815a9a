"""The fuzzers' targets hold for all that is kept, for changes of it, and for any bytes at all."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.mutating import CORPUS, TARGETS, changed, inputs

SEED = 20_261_122
COUNT = 300


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_kept_breaks_nothing_any_more(name: str) -> None:
    for content in inputs(name):
        TARGETS[name](content)


@pytest.mark.parametrize("name", TARGETS)
def test_changed_inputs_do_no_more_than_fail_as_promised(name: str) -> None:
    rng, known = random.Random(f"{SEED}-{name}"), inputs(name)
    for _ in range(COUNT):
        content = changed(rng, known)
        try:
            TARGETS[name](content)
        except Exception as error:
            raise AssertionError(f"seed {SEED}: {name} with {content!r}") from error


@given(st.sampled_from(sorted(TARGETS)), st.binary(max_size=200))
def test_any_bytes_do_no_more_than_fail_as_promised(name: str, content: bytes) -> None:
    TARGETS[name](content)


def test_each_kept_input_belongs_to_a_target() -> None:
    # Those in Rust are there only where it is built.
    assert {path.name for path in CORPUS.glob("*")} <= {*TARGETS, "rust", "rust-json", "owner"}


def test_a_mistake_that_one_odd_character_brings_about_would_be_found() -> None:
    rng, known = random.Random(SEED), inputs("half")
    assert any(b"\xc2\x9b" in changed(rng, known) for _ in range(COUNT))
    taken = sum(b"HALFHITCH" in changed(rng, known)[:9] for _ in range(COUNT))
    assert COUNT / 4 < taken < COUNT, "some stay whole enough to be read on"
