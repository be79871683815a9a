"""Which of the fast parts are here, and how to get the others."""

import pytest

import halfhitch
from halfhitch import extras
from halfhitch_cli import speed


def test_parts_that_are_here_stand_on_the_first_line_and_the_others_with_their_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(halfhitch, "is_compiled", lambda: True)
    monkeypatch.setattr(halfhitch, "is_native", lambda: False)
    first, *others = speed.version_text().splitlines()
    assert first.startswith(f"halfhitch {halfhitch.__version__} (compiled")
    assert "native" not in first
    assert any("native way" in line and "make wheels" in line for line in others)
    assert not any("compiled core" in line for line in others)


def test_the_client_alone_says_how_to_get_the_sidecar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "is_here", lambda _: False)
    text = speed.version_text()
    assert "The client alone" in text
    assert extras.command(extras.SIDECAR) in text
