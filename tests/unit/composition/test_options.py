"""What can be set has its default in the settings, and in no second place that could disagree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import msgspec
import pytest

from halfhitch.composition import engine_options, http_limits, rocketmq_limits
from halfhitch.config import SETTINGS, Settings

GROUPS = ("http", "owner", "ledger", "limits", "checks", "messages", "rocketmq")
#: Those are of the program, not of what it makes; or of routes, not of bounds.
ELSEWHERE = (".port", ".hung_call_s", ".requests_s_identity_max", ".create_partitions")
NUMBERS = [
    setting.key
    for setting in SETTINGS
    if setting.plain_type in (int, float)
    and setting.key.split(".")[0] in GROUPS
    and not setting.key.endswith(ELSEWHERE)
]


def taken(value: Any, path: str = "") -> Iterator[tuple[str, object, bool]]:
    """Every plain field in there: its path, value, and whether it may be left out."""
    for field in fields(value):
        found, name = getattr(value, field.name), f"{path}.{field.name}"
        if is_dataclass(found):
            yield from taken(found, name)
        else:
            has_default = (field.default, field.default_factory) != (MISSING, MISSING)
            yield name, found, has_default


def made(settings: Settings) -> dict[str, tuple[object, bool]]:
    """Of all that the program makes of its settings."""
    things = {
        "engine": engine_options(settings),
        "http": http_limits(settings),
        "rocketmq": rocketmq_limits(settings),
    }
    return {
        path: (value, has_default)
        for start, thing in things.items()
        for path, value, has_default in taken(thing, start)
    }


@pytest.mark.parametrize("key", NUMBERS)
def test_what_a_setting_decides_has_no_second_default(key: str) -> None:
    """The data door's limits were given twice: the reasons stood beside numbers nobody had."""
    group, _, name = key.partition(".")
    before = Settings()
    changed = msgspec.structs.replace(
        getattr(before, group), **{name: before.value_of(key) * 2 or 1}
    )
    now, was = made(msgspec.structs.replace(before, **{group: changed})), made(before)
    decided = [path for path in now if now[path][0] != was[path][0]]
    assert decided, "the setting reaches nothing"
    assert [path for path in decided if now[path][1]] == []
