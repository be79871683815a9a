"""Text that people will read: what must not be in a name, and how it is shown where it is.

The one rule for all doors. Refused in names is whatever can make a line say something else than it
seems to, by Unicode's categories and one of its properties:

- Cc, control characters, C1 (U+0080 to U+009F) among them, which drive some terminals as ESC does.
- Cf, format characters, all of them: those that turn text around (U+202E), and those that nobody
  sees (U+200B, U+00AD, the tags): two names that look the same must be the same, or an operator
  ends the wrong transaction. The price: the joiners of Persian and Indic words and of some emoji.
  Names are for machines first; values, and reasons for an UNKNOWN, may have them.
- Default_Ignorable_Code_Point, for the same reason: letters and marks that nobody sees either, such
  as variation selectors (U+FE0F) and the fillers of Hangul (U+3164), and what is kept for more.
- Zl and Zp, which end a line for some readers.
- Cs, lone surrogates, which UTF-8 has no bytes for.

What was stored before this rule is still found and ended; it is shown escaped.
"""

import json
import re
from typing import Any, Final
from unicodedata import category

_HIDING: Final = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs"})
#: Default_Ignorable_Code_Point without Cf. Python does not know it; a test derives it.
_UNSEEN: Final = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2065\u3164\ufe00-\ufe0f\uffa0"
    r"\ufff0-\ufff8"
    r"\U000e0000\U000e0002-\U000e001f\U000e0080-\U000e0fff]"
)
#: For sentences that refuse a name.
WITHOUT_HIDDEN: Final = "without control, format, invisible or line-breaking characters"
#: In JSON a line feed is between values, never within one.
_NOT_ASCII: Final = re.compile(r"[^\n\x20-\x7e]+")


def hides(text: str) -> bool:
    """Whether there is a character in it that must not be in a name."""
    if text.isprintable():
        return not text.isascii() and _UNSEEN.search(text) is not None
    return any(category(char) in _HIDING or _UNSEEN.match(char) for char in text)


def is_plain(text: str) -> bool:
    """Whether people see all of it, in one line: it is shown as it is."""
    return text.isprintable() and (text.isascii() or _UNSEEN.search(text) is None)


def shown(text: str) -> str:
    """The text in one line; what people would not see is written as Python would write it."""
    if is_plain(text):
        return text
    return "".join(char if is_plain(char) else _escaped(char) for char in text)


def shown_json(content: Any, *, indent: int | None = None) -> str:
    """JSON that reads back as the same, and that no terminal and no reader of lines obeys."""
    text = json.dumps(content, indent=indent, ensure_ascii=False, default=str)
    return _NOT_ASCII.sub(_json_escaped, text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _json_escaped(found: re.Match[str]) -> str:
    part = found[0]
    if is_plain(part):
        return part
    return "".join(char if is_plain(char) else json.dumps(char)[1:-1] for char in part)
