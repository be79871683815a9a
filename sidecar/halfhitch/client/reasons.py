"""Why a check could not be answered, in one short line that others may read. No I/O.

The line leaves this process: it is kept beside the transaction, in Redis too, and shown to
operators. So it carries the kind of the exception and the first line of what it says, and of that
no parameters of a statement, no passwords, and nothing that stands in the messages themselves.
The whole, with its traceback, is in this process's log.
"""

import re

from halfhitch.client.values import Check

#: The sidecar keeps no more.
REASON_CHARS_MAX = 200
#: Beyond this nothing is looked at: some exceptions quote megabytes.
_LOOKED_AT_MAX = 4 * REASON_CHARS_MAX
#: Shorter keys and values stand in any sentence.
_CONTENT_CHARS_MIN = 4

#: What drivers append: SQLAlchemy's statement and parameters, PostgreSQL's row, its own advice.
_APPENDIX = re.compile(
    r"\s*(\[SQL:|\[parameters:|\(Background on this error|\bDETAIL:|\bCONTEXT:|\bparameters?\s*[:=]"
    r"|\bparams\s*[:=]|Failing row contains|\bKey \(.*?\)=).*",
    re.IGNORECASE | re.DOTALL,
)
_LOGIN = re.compile(r"//[^/@\s]*@")
_SECRET = re.compile(
    r"\b(password|passwd|pwd|secret|token|api_?key|authorization)(\s*[=:]\s*)"
    r"('[^']*'|\"[^\"]*\"|(?:bearer |basic )?\S+)",
    re.IGNORECASE,
)
#: PostgreSQL, MySQL and Python itself quote the value that they could not take.
_QUOTED_VALUE = re.compile(
    r"((?:invalid (?:input )?(?:syntax|literal|value)|duplicate entry|incorrect \w+ value)"
    r"[^'\"]*)('[^']*'|\"[^\"]*\")",
    re.IGNORECASE,
)


def without_appendix(said: str) -> str:
    """What an error says itself, without what a driver appends: statements, parameters, links."""
    return _APPENDIX.sub("", said)


def reason_of(error: BaseException, check: Check) -> str:
    """Kind and first line, without payload and without secrets; printable, 200 characters."""
    kind = type(error).__qualname__
    if isinstance(error, KeyError):
        return kind  # it says nothing but a key, which is often data
    try:
        said = str(error)[:_LOOKED_AT_MAX]
    except Exception:  # noqa: BLE001 - the application's own __str__
        return kind
    line = said.strip().partition("\n")[0]
    line = without_appendix(line)
    line = _LOGIN.sub("//***@", line)
    line = _SECRET.sub(r"\1\2***", line)
    line = _QUOTED_VALUE.sub(r"\1***", line)
    for content in _contents(check):
        line = line.replace(content, "***")
    shown = "".join(char if char.isprintable() else " " for char in line)
    told = " ".join(f"{kind}: {shown}".split()).rstrip(": ")
    return told if len(told) <= REASON_CHARS_MAX else told[: REASON_CHARS_MAX - 3] + "..."


def _contents(check: Check) -> list[str]:
    """Keys, values and headers of the messages, as an exception may quote them; longest first."""
    found: set[str] = set()
    for message in check.messages:
        headers = message.headers or ()
        pairs = headers.items() if hasattr(headers, "items") else headers
        for raw in (message.key, message.value, *(value for _, value in pairs)):
            if raw is None:
                continue
            text = raw.decode(errors="replace") if isinstance(raw, bytes) else raw
            text = text[:_LOOKED_AT_MAX]
            if len(text) >= _CONTENT_CHARS_MIN:
                found.add(text)
    return sorted(found, key=len, reverse=True)
