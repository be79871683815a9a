"""The systemd unit, read as systemd reads it."""

from __future__ import annotations

from harness.places import ROOT

UNIT = ROOT / "deploy" / "systemd" / "halfhitch.service"


def settings() -> dict[str, str]:
    found: dict[str, str] = {}
    for line in UNIT.read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            assert name not in found
            found[name] = value
    return found


def test_the_dynamic_user_has_not_the_name_of_a_group_that_may_be_there() -> None:
    """Without User= it is the unit's. systemd refuses a name that is a group's and no user's."""
    unit = settings()
    assert unit["DynamicUser"] == "yes"
    assert unit.get("User", UNIT.stem) != unit["Group"]
