"""A secret shows itself to nobody who does not ask by name."""

import json
import pickle

import pytest

from halfhitch.config import Secret

TEXT = "correct-horse-battery"


@pytest.mark.parametrize(
    "shown",
    [
        repr(Secret(TEXT)),
        str(Secret(TEXT)),
        f"{Secret(TEXT)}",
        f"{Secret(TEXT)!r:>30}",
        f"{Secret(TEXT):>30}",
        "%s %r" % (Secret(TEXT), Secret(TEXT)),  # noqa: UP031 - logging formats this way
        repr([Secret(TEXT)]),
        repr({"key": (Secret(TEXT),)}),
    ],
)
def test_no_conversion_to_text_shows_a_secret(shown: str) -> None:
    assert TEXT not in shown
    assert "***" in shown


def test_reveal_gives_the_text() -> None:
    assert Secret(TEXT).reveal() == TEXT


def test_secrets_compare_by_value_and_with_nothing_else() -> None:
    assert Secret("ä1") == Secret("ä1")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2


def test_a_secret_is_neither_pickled_nor_json() -> None:
    with pytest.raises(TypeError, match="never pickled"):
        pickle.dumps(Secret(TEXT))
    with pytest.raises(TypeError):
        json.dumps(Secret(TEXT))
    assert not hasattr(Secret(TEXT), "__dict__")
