"""Which of the fast parts are here, and how to get the others. What Half Hitch does is the same.

Looks only whether a package is there, and whether it fits: `--version` must answer at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import halfhitch
from halfhitch import extras


@dataclass(frozen=True, slots=True)
class FastPart:
    """One of them."""

    name: str  # as --version shows it
    what: str
    is_here: bool
    way: str  # to get it
    trouble: str | None = None  # why one that is installed is not used


def fast_parts() -> Sequence[FastPart]:
    """All there are."""
    trouble = native_trouble() if halfhitch.is_native() else None
    return (
        FastPart(
            "compiled",
            "the compiled core",
            halfhitch.is_compiled(),
            "the wheel for this Python and platform (`make wheels` makes one, from a clone)",
        ),
        FastPart(
            "native",
            "the native way of requests and owners",
            halfhitch.is_native() and trouble is None,
            "`make wheels` from a clone, then pip install --find-links dist 'halfhitch[speed]'",
            trouble,
        ),
        FastPart("uvloop", "uvloop", find_spec("uvloop") is not None, "pip install uvloop"),
    )


def native_trouble() -> str | None:
    """Why the halfhitch-native that is here does not fit."""
    from halfhitch.adapters.native.face import installed

    return installed()[1]


def version_text() -> str:
    """What --version shows: the parts that are here on the first line, then the others."""
    line = f"halfhitch {halfhitch.__version__}"
    if not extras.is_here(extras.SIDECAR):
        return f"{line}\nThe client alone. The sidecar: {extras.command(extras.SIDECAR)}"
    parts = fast_parts()
    if here := [part.name for part in parts if part.is_here]:
        line += f" ({', '.join(here)})"
    return "\n".join(
        [
            line,
            *(
                part.trouble or f"Faster with {part.what}: {part.way}"
                for part in parts
                if not part.is_here
            ),
        ]
    )
