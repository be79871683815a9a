"""The site's menu has every text, and every link and anchor between texts leads somewhere."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from harness.places import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

_SPEC = importlib.util.spec_from_file_location("site_tool", ROOT / "tools" / "site.py")
assert _SPEC is not None
assert _SPEC.loader is not None
tool = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(tool)


class _Loader(yaml.SafeLoader):
    """Passes over what MkDocs makes Python objects of."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def menu(node: Any) -> Iterator[str]:
    """Every page that it names."""
    if isinstance(node, str):
        yield node
    else:
        for below in node.values() if isinstance(node, dict) else node:
            yield from menu(below)


def read(path: str) -> str | None:
    place = ROOT / path
    if not place.exists():
        return None
    return place.read_text(encoding="utf-8") if place.suffix == ".md" else ""


def test_the_menu_has_every_page_once() -> None:
    config = yaml.load((ROOT / "mkdocs.yml").read_text(), _Loader)
    named = list(menu(config["nav"]))
    pages = set(tool.texts().values())
    assert pages - set(named) == set(), "give it a place in the menu of mkdocs.yml"
    assert set(named) - pages == set(), "mkdocs.yml names what is not there"
    assert len(named) == len(pages)
    assert config["theme"]["font"] is False
    assert config["strict"] is True


def test_every_link_and_anchor_between_texts_leads_somewhere() -> None:
    wrong = [
        line
        for source in tool.texts()
        for line in tool.broken(source, (ROOT / source).read_text(encoding="utf-8"), read)
    ]
    assert not wrong, "\n".join(["", *wrong])


def test_no_text_of_the_root_is_left_out() -> None:
    texts = {path.name for path in ROOT.glob("*.md")}
    assert texts - set(tool.PAGES) == set()


# -- the checks can fail -------------------------------------------------------------------------

_OTHER = "# A page\n\n## What `x.y_z` is, in a word\n\n## Twice\n\n## Twice\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[a](gone.md)", "docs/x.md, line 1: gone.md is not there"),
        ("\n[a](../gone)", "docs/x.md, line 2: ../gone is not there"),
        ("[a](y.md#gone)", "docs/x.md, line 1: docs/y.md has no heading #gone"),
        ("[a](y.md#twice)", "docs/x.md, line 1: docs/y.md has no heading #twice"),
        ("[a](#here)", "docs/x.md, line 1: docs/x.md has no heading #here"),
    ],
)
def test_a_link_that_leads_nowhere_is_found(text: str, says: str) -> None:
    assert list(tool.broken("docs/x.md", text, {"docs/y.md": _OTHER}.get)) == [says]


@pytest.mark.parametrize(
    "text",
    [
        "[a](y.md) [b](y.md#what-xy_z-is-in-a-word) [c](https://host/gone.md#gone) [d](mailto:a@b)",
        "## Here\n[a](#here)",
        "```\n[a](gone.md)\n# No heading\n```\n`[a](gone.md)`",
    ],
)
def test_a_link_that_leads_somewhere_is_left_alone(text: str) -> None:
    assert list(tool.broken("docs/x.md", text, {"docs/y.md": _OTHER}.get)) == []


def test_a_text_of_the_site_has_its_links_and_lists() -> None:
    fence = "```\nx\n- [e](y)\n```"
    text = f"Both:\n- [a](../README.md#b), [c](y.md)\n- [d](../deploy/Dockerfile)\n\n{fence}"
    made = tool.for_site("docs/x.md", text, {"README.md": "index.md", "docs/y.md": "y.md"})
    assert made == (
        f"Both:\n\n- [a](index.md#b), [c](y.md)\n- [d](source/deploy/Dockerfile)\n\n{fence}"
    )


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.html", '<script src="https://host/x.js">', ["a.html loads https://host/x.js"]),
        ("a.html", '<link href="//host/x.css" rel="stylesheet">', ["a.html loads //host/x.css"]),
        ("a.html", "<link rel=preconnect href=https://host>", ["a.html loads https://host"]),
        ("a.css", "a{b:url(https://host/c.woff)}", ["a.css loads https://host/c.woff"]),
        (
            "a.html",
            '<a href="https://host/"><img src="x.svg"><link rel="canonical" href="//b">',
            [],
        ),
    ],
)
def test_what_a_page_loads_from_elsewhere_is_found(name: str, text: str, says: list[str]) -> None:
    assert list(tool.loaded(name, text)) == says
