"""Python as the documents show it, to be run: what stands there must work.

`fences` gives the blocks of a text, `fence_with` the one that holds a phrase. Nothing here knows
what a block is about.
"""

from __future__ import annotations

import re

from harness.places import ROOT


def fences(document: str, language: str = "python") -> list[str]:
    """The blocks of this language, in their order. `document`: a path within the project."""
    text = (ROOT / document).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def fence_with(document: str, *phrases: str) -> str:
    """The first block that holds all of them."""
    for fence in fences(document):
        if all(phrase in fence for phrase in phrases):
            return fence
    raise LookupError(f"{document} shows no program with {phrases}")


def inline_with(document: str, phrase: str) -> str:
    """The first piece of code within a sentence that holds the phrase, on one line."""
    text = re.sub(r"^```.*?^```", "", (ROOT / document).read_text(), flags=re.MULTILINE | re.DOTALL)
    for piece in re.findall(r"`([^`]+)`", text):
        if phrase in piece:
            return " ".join(piece.split())
    raise LookupError(f"{document} has no `...` with {phrase!r}")


def replaced(text: str, old: str, new: str) -> str:
    """Every occurrence, of which there must be one: else the document has changed its words."""
    if old not in text:
        raise LookupError(f"the document does not say {old!r} any more:\n{text}")
    return text.replace(old, new)
