"""Is a build of halfhitch-native one for this sidecar? Its version, and the names it is asked by.

Two packages are installed one by one, and a build in a folder has no version at all. An older one
would be asked what it does not know, in the middle of a request; so it is looked at first, and one
that does not fit is as good as none. Imports nothing heavy: `--version` asks too.
"""

import importlib
import inspect
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import halfhitch

MODULE: Final = "halfhitch_native"
REMEDY: Final = "`make native` from a clone, or pip install --find-links dist 'halfhitch[speed]'"

#: What `Native` is made with.
MADE_WITH: Final = (
    *("library", "options", "half_topic", "op_topic", "instance", "reply_start", "wake"),
    *("frame_bytes_max", "body_bytes_max", "message_bytes_max", "in_flight_bytes_max"),
)
#: Its methods, and how many arguments each takes; a test holds them against what the door asks.
METHODS: Final[Mapping[str, int]] = {
    "allow": 6,
    "claim": 3,
    "connect": 2,
    "decisions": 3,
    "disconnect": 1,
    "events": 0,
    "feed": 3,
    "forget": 0,
    "forgotten": 1,
    "lend": 3,
    "lingering": 0,
    "open": 2,
    "owners_read": 1,
    "rolled_back": 1,
    "stop": 1,
    "take_back": 1,
    "was_rolled_back": 3,
    "write": 2,
}
#: The values that it answers with, and their fields.
VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "Decided": ("number", "is_commit", "is_stored", "op_offset"),
    "Events": (
        *("progress", "failures", "prepared_s", "committed_s", "rolled_back_s", "traced"),
        *("lines", "unread", "due"),
    ),
    "Failed": ("connection", "request_code", "opaque", "is_json", "error_number"),
    "Fed": ("rest", "begun_count", "held_bytes"),
    "Line": ("level", "facility", "text"),
    "Progress": ("connection", "begun_count", "done_count", "answers"),
    "TakenBack": ("unsent", "begun_count", "held_bytes"),
    "Unread": ("connection", "data"),
}

#: The same of the data door's carrier; an older build has none, and is good for RocketMQ's.
HTTP_MADE_WITH: Final = (
    *("library", "options", "half_topic", "op_topic", "instance", "wake"),
    *("head_bytes_max", "message_bytes_max", "in_flight_bytes_max", "immunity_s"),
)
HTTP_METHODS: Final[Mapping[str, int]] = {
    "admit": 2,
    "allow": 1,
    "asked": 0,
    "close_all": 0,
    "connect": 2,
    "decisions": 3,
    "disconnect": 1,
    "events": 0,
    "forgotten": 1,
    "heard": 1,
    "lend": 3,
    "lingering": 0,
    "open": 4,
    "opened": 5,
    "owners_read": 1,
    "prepared": 0,
    "stop": 1,
    "store": 1,
    "take_back": 1,
    "tell": 1,
    "under_way": 0,
    "was_rolled_back": 3,
}
HTTP_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "HttpEvents": (
        *("progress", "failures", "prepared_s", "committed_s", "rolled_back_s"),
        *("json_prepared_s", "traced", "prepared_ids", "ended_ids", "lines", "due"),
    ),
    "HttpFailed": (
        *("connection", "route", "error_number", "partition", "group", "transaction_id"),
        "is_named",
    ),
    "HttpTakenBack": ("unsent", "held", "begun_count", "is_busy"),
}


#: The same of an owner's reading and forwarding.
OWNER_MADE_WITH: Final = ("library", "options", "half_topic", "op_topic", "partition")
OWNER_METHODS: Final[Mapping[str, int]] = {
    "assign": 2,
    "close": 0,
    "committed": 1,
    "lines": 0,
    "pause_op": 0,
    "read": 2,
    "resume_op": 0,
    "wake": 0,
    "watermarks": 2,
}
OWNER_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "Payload": ("key", "value", "headers", "size_bytes", "facts", "aim", "told", "story"),
    "Record": ("topic", "offset", "timestamp", "key", "value", "headers", "payload"),
}


def has_owner(module: Any) -> bool:
    """Whether this module, which fits, reads and forwards for owners as well."""
    kind = getattr(module, "LogConsumer", None)
    forward = _parameters(getattr(module, "forward", None))
    why = _other_kind(module, kind, OWNER_MADE_WITH, OWNER_METHODS, OWNER_VALUES)
    return why is None and forward == ("library", "client", "payloads")


def has_http(module: Any) -> bool:
    """Whether this module, which fits, has the data door's carrier as well."""
    kind = getattr(module, "HttpNative", None)
    return _other_kind(module, kind, HTTP_MADE_WITH, HTTP_METHODS, HTTP_VALUES) is None


def installed() -> tuple[Any | None, str | None]:
    """The module, where it fits; and the sentence that says why one that is here does not."""
    try:
        module = importlib.import_module(MODULE)
    except ModuleNotFoundError:
        return None, None
    except ImportError as error:
        return None, _told(f"it cannot be loaded: {error}")
    why = _other_version(module) or _other_names(module)
    return (module, None) if why is None else (None, _told(why))


def _told(why: str) -> str:
    return (
        f"halfhitch-native is here and is not used ({why}); everything goes the interpreted way. "
        f"Renew it: {REMEDY}"
    )


def _other_version(module: Any) -> str | None:
    """None too where it has none: `make native` leaves a file in a folder."""
    try:
        found = metadata.distribution("halfhitch-native")
    except metadata.PackageNotFoundError:
        return None
    place = Path(str(module.__file__)).resolve()
    if not place.is_relative_to(Path(str(found.locate_file(""))).resolve()):
        return None  # another one, that comes first on the path
    if found.version == halfhitch.__version__:
        return None
    return f"it is version {found.version}, and this is halfhitch {halfhitch.__version__}"


def _other_names(module: Any) -> str | None:
    return _other_kind(module, getattr(module, "Native", None), MADE_WITH, METHODS, VALUES)


def _other_kind(
    module: Any,
    native: Any,
    made_with: tuple[str, ...],
    methods: Mapping[str, int],
    values: Mapping[str, tuple[str, ...]],
) -> str | None:
    if _parameters(native) != made_with:
        return "it is a build of another version: Native is not made as it was"
    for name, count in methods.items():
        # Called by position, so their names may differ.
        found = _parameters(getattr(native, name, None))
        if found is None or len(found) != count:
            return f"it is a build of another version: Native.{name} is not as asked"
    for name, fields in values.items():
        kind = getattr(module, name, None)
        if not all(hasattr(kind, field) for field in fields):
            return f"it is a build of another version: {name} is not as read"
    return None


def _parameters(function: Any) -> tuple[str, ...] | None:
    try:
        names = tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None
    return names[1:] if names[:1] in (("self",), ("$self",)) else names
