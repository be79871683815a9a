"""The number that proves where a half lies and whose it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfhitch.errors import KafkaUnavailable
from halfhitch.wire.handle import HandleCodec
from halfhitch.wire.seal import Seals, seal_key

KEY, OTHER = b"0123456789abcdef", b"fedcba9876543210"
PLACE = (3, 17, "shop", "order-1")
#: Of PLACE. Must never change.
GOLDEN = 52615990104801711
PLACES = st.tuples(
    st.integers(0, 2**15 - 1), st.integers(0, 2**48 - 1), st.text(max_size=9), st.text(max_size=9)
)


def seals(*keys: bytes, installation: str = "cluster.prefix") -> Seals:
    return HandleCodec(keys or (KEY,), installation).seals


def test_a_seal_of_an_earlier_day_is_still_a_seal() -> None:
    """Clients hold it across a change of release."""
    assert seals().make(*PLACE) == GOLDEN
    assert seals().fits(GOLDEN, *PLACE)


@given(PLACES, PLACES)
def test_a_seal_fits_its_own_place_and_no_other(place: tuple, other: tuple) -> None:  # type: ignore[type-arg]
    made = seals().make(*place)
    assert 0 <= made < 2**56
    assert seals().fits(made, *place)
    assert seals().fits(made, *other) is (place == other)


@given(st.one_of(st.integers(), st.integers(0, 2**56 - 1)))
def test_a_number_that_was_made_up_is_no_seal(number: int) -> None:
    assert seals().fits(number, *PLACE) is (number == GOLDEN)


@pytest.mark.parametrize("place", [(3, 17, "shopo", "rder-1"), (3, 17, "", "shoporder-1")])
def test_what_belongs_to_the_group_cannot_be_passed_off_as_the_ids(
    place: tuple[int, int, str, str],
) -> None:
    assert not seals().fits(GOLDEN, *place)


def test_all_keys_are_taken_and_the_first_one_seals() -> None:
    assert seals(OTHER, KEY).fits(GOLDEN, *PLACE)
    assert seals(OTHER, KEY).make(*PLACE) == seals(OTHER).make(*PLACE) != GOLDEN
    assert not seals(OTHER).fits(GOLDEN, *PLACE)


def test_a_seal_is_of_one_installation_and_its_keys_tell_nothing_of_the_handles() -> None:
    assert not seals(installation="cluster.other").fits(GOLDEN, *PLACE)
    (key,) = seals().keys
    assert key != KEY
    assert len(key) == 32
    assert key != seal_key(KEY, b"")


def test_before_kafka_was_reached_nothing_can_be_sealed() -> None:
    codec = HandleCodec((KEY,), None)
    with pytest.raises(KafkaUnavailable, match="has not been reached"):
        _ = codec.seals
    codec.bind("cluster.prefix")
    assert codec.seals.make(*PLACE) == GOLDEN
