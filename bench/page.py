"""Pages that are written by hand but for some parts, each between two marks. Pure."""

from __future__ import annotations


def with_part(text: str, made_by: str, new: str) -> str:
    """The page with another part of this maker; everything outside its marks stays."""
    first, last = f"<!-- figures: made by {made_by} -->", "<!-- end of figures -->"
    before, begin, rest = text.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise ValueError(f"the page lacks its marks: {first} and {last}")
    return f"{before}{begin}\n\n{new}\n\n{end}{after}"
