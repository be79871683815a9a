"""Why something was decided, in a producer's words, as it is kept in the op log.

An operator's reason is refused when it is not fit to be read (operations.py). A producer's end is
never refused for its remark: that is made fit, or left out.
"""

from typing import Final

from halfhitch.wire.plain import is_plain

#: A reason is read by people, in one line.
REASON_CHARS_MAX: Final = 200
#: Beyond this no remark is looked at: exceptions may carry whole stack traces.
_LOOKED_AT_MAX: Final = 4 * REASON_CHARS_MAX
_CUT: Final = "..."


def kept_reason(remark: str | None) -> str | None:
    """In one line, printable, 200 characters at most; None where nothing is left to be read."""
    if not remark:
        return None
    looked_at = remark[:_LOOKED_AT_MAX]
    # Lone surrogates, which UTF-8 has no bytes for, are among what is not plain.
    shown = "".join(char if is_plain(char) else " " for char in looked_at)
    text = " ".join(shown.split())
    if len(text) > REASON_CHARS_MAX:
        text = text[: REASON_CHARS_MAX - len(_CUT)] + _CUT
    return text or None
