"""What the documentation's site needs beyond docs/: a hook of MkDocs (mkdocs.yml), and its rules.

Texts of the root and of the charts become pages. Links in all texts are those of the repository, so
that they lead somewhere there too; here they are turned into links of the site. What is linked and
is no text goes along as it is, below `source/`. `broken` is the same look without MkDocs, for
tests/tidy/test_site.py.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
#: Texts that do not lie in docs/, and which page each becomes.
PAGES: Final[Mapping[str, str]] = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "DESIGN.md": "design.md",
    "SECURITY.md": "security.md",
    "deploy/helm/halfhitch/README.md": "chart.md",
    "deploy/helm/halfhitch-sidecar/README.md": "chart-sidecar.md",
}

_LINK: Final = re.compile(r"(\]\()([^)\s#]*)(#[^)\s]*)?(\))")
_FENCE: Final = re.compile(r"^( *)(```|~~~).*?^\1\2\s*$", re.MULTILINE | re.DOTALL)
_HEADING: Final = re.compile(r"^#{1,6} +(.+?)\s*$", re.MULTILINE)
_ITEM: Final = re.compile(r"^( *)(?:[-*]|\d+\.) ")


# -- the repository's texts ----------------------------------------------------------------------


def texts(root: Path = ROOT) -> dict[str, str]:
    """Path in the repository -> page of the site."""
    own = {f"docs/{path.name}": path.name for path in sorted((root / "docs").glob("*.md"))}
    return own | dict(PAGES)


def links(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, path and anchor of each link that leads to no other host."""
    prose = _FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)
    prose = re.sub(r"`[^`\n]*`", lambda code: " " * len(code[0]), prose)
    for found in _LINK.finditer(prose):
        path, anchor = found[2], (found[3] or "").removeprefix("#")
        if not re.match(r"\w+:", path) and (path or anchor):
            yield prose.count("\n", 0, found.start()) + 1, path, anchor


def resolved(path: str, source: str) -> str:
    """The path in the repository that a link in the text `source` means."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), path)) if path else source


def anchors(text: str) -> set[str]:
    """Of a text's headings, as GitHub and this site make them; those that come twice are none."""
    prose = _FENCE.sub("", text)
    made = [anchor(heading) for heading in _HEADING.findall(prose)]
    return {one for one in made if made.count(one) == 1}


def anchor(heading: str) -> str:
    """Of one heading: letters, digits, `_` and `-`; blanks are hyphens."""
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")


def broken(source: str, text: str, read: Callable[[str], str | None]) -> Iterator[str]:
    """Links of a text that lead nowhere. `read`: a file's text, None where none is."""
    for line, path, to in links(text):
        target = resolved(path, source)
        found = text if target == source else read(target)
        if found is None:
            yield f"{source}, line {line}: {path} is not there"
        elif to and to not in anchors(found):
            yield f"{source}, line {line}: {target} has no heading #{to}"


# -- the site ------------------------------------------------------------------------------------


def for_site(source: str, text: str, pages: Mapping[str, str]) -> str:
    """A text with the site's links, and lists as Python-Markdown knows them."""
    kept: list[str] = []

    def keep(block: re.Match[str]) -> str:
        kept.append(block[0])
        return f"\0{len(kept) - 1}\0"

    def turned(found: re.Match[str]) -> str:
        path, to = found[2], found[3] or ""
        if not path or re.match(r"\w+:", path):
            return found[0]
        target = resolved(path, source)
        return f"]({pages.get(target) or _taken_along(target)}{to})"

    text = _LINK.sub(turned, _with_blanks(_FENCE.sub(keep, text)))
    return re.sub("\0(\\d+)\0", lambda mark: kept[int(mark[1])], text)


def _taken_along(path: str) -> str:
    return path.removeprefix("docs/") if path.startswith("docs/") else f"source/{path}"


def _with_blanks(text: str) -> str:
    """A list may follow its paragraph at once on GitHub; Python-Markdown wants a line between."""
    lines: list[str] = []
    is_list = False
    for line in text.split("\n"):
        is_item = _ITEM.match(line) is not None
        if is_item and not is_list and lines and lines[-1].strip():
            lines.append("")
        is_list = is_item or (is_list and bool(line.strip()))
        lines.append(line)
    return "\n".join(lines)


#: What a page loads by itself; where a link leads is the reader's choice.
_LOADED: Final = re.compile(
    r"""<(?:script|img|iframe|source|video|audio)\b[^>]*?\bsrc=["']?([^"'\s>]+)"""
    r"""|<link\b(?=[^>]*\brel=["']?(?:stylesheet|icon|preconnect|preload|modulepreload|manifest))"""
    r"""[^>]*?\bhref=["']?([^"'\s>]+)"""
)
_LOADED_BY_STYLE: Final = re.compile(r"""(?:@import\s+|url\()["']?([^"')\s]+)""")


def loaded(name: str, text: str) -> Iterator[str]:
    """What a file of the site loads from another host."""
    pattern = _LOADED_BY_STYLE if name.endswith(".css") else _LOADED
    for found in pattern.finditer(text):
        place = next(filter(None, found.groups()))
        if re.match(r"(?:\w+:)?//", place):
            yield f"{name} loads {place}"


def main(folder: str) -> int:
    """Whether what was built loads nothing from elsewhere."""
    site = Path(folder)
    files = [path for path in sorted(site.rglob("*")) if path.suffix in (".html", ".css")]
    wrong = [line for path in files for line in loaded(path.name, path.read_text(encoding="utf-8"))]
    print("\n".join([*wrong, f"{site / 'index.html'}: {len(files)} files, {len(wrong)} wrong"]))  # noqa: T201
    return 1 if wrong or not files else 0


def on_files(files: Any, config: Any) -> Any:
    """MkDocs': the pages that do not lie in docs/, and the files that pages link."""
    from mkdocs.structure.files import File

    pages = texts()
    wanted = set()
    for source in pages:
        text = (ROOT / source).read_text(encoding="utf-8")
        wanted |= {resolved(path, source) for _, path, _ in links(text) if path}
        if source in PAGES:
            files.append(File.generated(config, pages[source], content=text))
    for path in sorted(wanted - set(pages)):
        if not path.startswith("docs/"):
            content = (ROOT / path).read_bytes()
            files.append(File.generated(config, _taken_along(path), content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """MkDocs': the site's links."""
    pages = texts()
    source = next(path for path, name in pages.items() if name == page.file.src_uri)
    return for_site(source, markdown, pages)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
