"""Numbers and names that `native/` has a second time are those of Python: read out of the sources.

The property tests compare what both do with what they draw; a bound, or one name of twenty, that
has changed on one side only need not be drawn.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from halfhitch.adapters.kafka import errors
from halfhitch.doors.http import trace_context
from halfhitch.doors.rocketmq.messages import FLAG_HEADER
from halfhitch.service.transactions import lately, op_appends, remembered, rolled_back, taken
from halfhitch.wire import digest, half, op
from halfhitch.wire import headers as names
from halfhitch.wire.remoting.properties import DELAYING

SOURCES = Path(__file__).resolve().parents[2] / "native" / "src"

Value = float | str | frozenset[str] | frozenset[int]

#: Without those that begin with the prefix, which no list needs to hold.
RESERVED = frozenset(name for name in names.RESERVED if not name.startswith(names.RESERVED_PREFIX))
#: What native/src/read.rs takes for what it means, before it asks whether a name is a header's.
READ_THERE = {names.UNIQ_KEY, names.CHECK_IMMUNITY_TIME_IN_SECONDS}
FIXED = {names.HALFHITCH, names.UNIQ_KEY, names.PGROUP, names.REAL_TOPIC, names.TRAN_MSG}

SAME: list[tuple[str, str, Value]] = [
    ("lanes.rs", "GATHER", op_appends._GATHER_S),
    ("lanes.rs", "GATHERED_MAX", op_appends._GATHERED_MAX),
    ("lanes.rs", "MARKS_MAX", op.MARKS_MAX),
    ("lanes.rs", "ENTRIES_BYTES_MAX", op_appends._ENTRIES_BYTES_MAX),
    ("memory.rs", "RECENT", remembered._RECENT_S),
    ("memory.rs", "UNOWNED", remembered._UNOWNED_S),
    ("memory.rs", "STALE", remembered._STALE_S),
    ("memory.rs", "REMEMBERED_MAX", remembered._COUNT_MAX),
    ("lately.rs", "RECENT", lately.RECENT_S),
    ("memory.rs", "ROLLED_BACK_MAX", rolled_back._COUNT_MAX),
    ("memory.rs", "SURELY_NOT_STORED", errors._SURELY_NOT_STORED | errors.TOO_LARGE),
    ("taken.rs", "COUNT_MAX", taken._COUNT_MAX),
    ("digest.rs", "TRACING", digest.TRACING),
    ("digest.rs", "TRACE_BYTES_MAX", trace_context._PARENT_BYTES_MAX),
    ("http.rs", "IMMUNITY_S_MAX", half.IMMUNITY_S_MAX),
    ("http.rs", "RESERVED", RESERVED),
    ("read.rs", "TWINS", (RESERVED - READ_THERE) | {*DELAYING, FLAG_HEADER}),
    ("read.rs", "NAME_BYTES_MAX", half.ID_BYTES_MAX),
    ("owner/usual.rs", "FIXED", frozenset(FIXED)),
    ("owner/usual.rs", "REAL_QID", names.REAL_QID),
    ("owner/usual.rs", "UNUSUAL", RESERVED - FIXED - {names.REAL_QID}),
    ("owner/usual.rs", "RESERVED", names.RESERVED_PREFIX),
    ("owner/usual.rs", "VERSION", str(names.RECORD_VERSION)),
    ("owner/usual.rs", "INDEX_MAX", half.INDEX_MAX),
    ("owner/usual.rs", "NAME_BYTES_MAX", half.ID_BYTES_MAX),
]

_TEXT = re.compile(r'b"([^"\\]*)"')
_NUMBER = re.compile(r"-?[0-9]+")
_DURATION = re.compile(r"Duration::from_(secs|millis|micros)\(([0-9_]+)\)")
_UNITS = {"secs": 1, "millis": 1_000, "micros": 1_000_000}


def constant(source: str, name: str) -> Value:
    """Of a text in Rust: a number, seconds, one name or several."""
    (value,) = re.findall(rf"\bconst {name}: [^=]*= ([^;]*);", source)
    duration = _DURATION.fullmatch(value)
    if duration is not None:
        return int(duration[2]) / _UNITS[duration[1]]
    if value.startswith("["):
        return frozenset(_TEXT.findall(value) or map(int, _NUMBER.findall(value)))
    text = _TEXT.fullmatch(value)
    return int(value) if text is None else text[1]


@pytest.mark.parametrize(("file", "name", "value"), SAME, ids=[f"{f}-{n}" for f, n, _ in SAME])
def test_what_stands_in_both_languages_is_the_same(file: str, name: str, value: Value) -> None:
    assert constant((SOURCES / file).read_text(), name) == value


def test_the_prefix_that_no_user_may_have_is_the_same_everywhere() -> None:
    for file in ("http.rs", "read.rs"):
        found = re.findall(r'name\.starts_with\(b"(\w+)"\)', (SOURCES / file).read_text())
        assert found == [names.RESERVED_PREFIX], file


def test_what_rust_says_is_read_as_it_is_meant() -> None:
    source = """
        pub const A_MAX: usize = 1_000;
        const SOON: Duration = Duration::from_millis(4);
        const LATE: Duration = Duration::from_secs(60);
        const ONE: &[u8] = b"ONE";
            const MANY: [&[u8]; 2] = [
                b"a-b",
                b"c",
            ];
    """
    found = [constant(source, name) for name in ("A_MAX", "SOON", "LATE", "ONE", "MANY")]
    assert found == [1_000, 0.004, 60, "ONE", {"a-b", "c"}]
    with pytest.raises(ValueError, match="unpack"):
        constant(source, "GONE")
