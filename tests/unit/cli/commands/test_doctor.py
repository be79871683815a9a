"""What `halfhitch doctor` makes of the line that `halfhitch dev` prints; all else: test_cli.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from halfhitch.adapters.kafka.topics import Finding, Severity
from halfhitch.config import Purpose, load
from halfhitch.errors import BackendError
from halfhitch_cli import findings
from halfhitch_cli.client import TokenAsked
from halfhitch_cli.commands import doctor

if TYPE_CHECKING:
    from collections.abc import Callable

#: As dev's line has them: no handle key, which is the sidecar's own.
LOOKING = load({"kafka.bootstrap": "127.0.0.1:9092"}, purpose=Purpose.TOOL)
ONE_COPY = Finding("half", Severity.WARN, "one copy", "Fine for development.", is_right_in_dev=True)
STALE = Finding("watermarks", Severity.WARN, "behind", "Look at it.")


#: In place of an instance: the door asks for a token.
ASKS = "a token"


class Door:
    """An admin door that says whose it is, or does not answer."""

    address = "http://127.0.0.1:8341"

    def __init__(self, instance: str | None) -> None:
        self._instance = instance

    def get(self, path: str) -> tuple[int, object]:
        if self._instance is None:
            raise BackendError("nobody")
        if self._instance == ASKS:
            raise TokenAsked("a token")
        return 200, {"info": {"instance": self._instance}} if path == "/v1/status" else {}


@pytest.fixture
def looked(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[str | None], dict[str, Finding]]:
    def look(instance: str | None) -> dict[str, Finding]:
        shown: list[Finding] = []
        monkeypatch.setattr(doctor.AdminClient, "of", lambda _: Door(instance))
        monkeypatch.setattr(doctor, "_kafka", lambda *_: [ONE_COPY, STALE])
        monkeypatch.setattr(findings, "show", lambda _, found: shown.extend(found))

        class Given:
            def load(self, _: Purpose) -> object:
                return LOOKING

        doctor.doctor(Given())  # type: ignore[arg-type]
        return {finding.check: finding for finding in shown}

    return look


def test_what_is_right_in_dev_was_warned_about(looked: Callable[..., dict[str, Finding]]) -> None:
    found = looked("dev")
    assert found["half"].severity is Severity.OK
    assert found["settings"].severity is Severity.OK
    assert found["watermarks"].severity is Severity.WARN  # what is wrong in dev too


def test_elsewhere_one_copy_is_a_warning(looked: Callable[..., dict[str, Finding]]) -> None:
    found = looked("shop-1")
    assert found["half"].severity is Severity.WARN
    assert found["settings"].severity is Severity.OK  # a sidecar runs, so it had what it needs


def test_settings_that_start_no_sidecar_are_told_where_none_runs(
    looked: Callable[..., dict[str, Finding]],
) -> None:
    found = looked(None)
    assert found["settings"].severity is Severity.WARN
    assert "handle.key" in found["settings"].sentence
    assert found["half"].severity is Severity.WARN


def test_settings_were_judged_though_the_sidecar_only_asked_for_a_token(
    looked: Callable[..., dict[str, Finding]],
) -> None:
    told = looked(ASKS)["settings"]
    assert "asks for a token" in told.sentence
    assert "HALFHITCH_AUTH_TOKENS" in told.remedy
    assert doctor._brokers(1) == "1 broker"
