"""What the texts for developers name is there: files, functions, classes, settings, make targets.

A text that tells where things happen is worth nothing once it is wrong about it. So every name in
backticks that looks like one of ours is looked up: a file in the tree, a name right behind a file
in that file, `Class.member` in some class of that name, `section.key` among the settings. What
belongs to others (librdkafka, Python, RocketMQ) stands in OF_OTHERS.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from halfhitch.config import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]
#: Files are named as they lie in one of these.
BASES = ("", "sidecar/halfhitch/")
TEXTS = ("DESIGN.md", "CONTRIBUTING.md", "docs/adding-a-door.md")
PRODUCT = ("sidecar", "cli", "spark")
#: Names that no source of ours has, and where they come from.
OF_OTHERS = {
    "CID_RMQ_SYS_TRANS_BOUNDS": "put together in adapters/kafka/topic_checks.py",
    "_FATAL": "confluent_kafka",
    "CONCURRENT_TRANSACTIONS": "Kafka",
    "HALFHITCH_IMAGE": "a variable of the repository, .github/workflows/release.yml",
    "HALFHITCH_IMAGE_TOKEN": "a secret of the repository, .github/workflows/release.yml",
    "HALFHITCH_IMAGE_USER": "a variable of the repository, .github/workflows/release.yml",
    "HALFHITCH_PUBLISH": "a variable of the repository, .github/workflows/release.yml",
    "HALFHITCH_TEST_SEED": "the environment of tests, conftest.py",
    "begin_transaction": "confluent_kafka",
    "commit_transaction": "confluent_kafka",
    "init_transactions": "confluent_kafka",
    "read_committed": "Kafka",
    "send_offsets_to_transaction": "confluent_kafka",
}
#: Made by a build, and by nobody else.
BUILT = ("build/", "dist/")

_PLACE = re.compile(r"(?=.*(?:/|\.(?:py|rs|md|toml|yaml|yml|txt|lock|json)$))[\w.][\w./-]*")
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?(?:\(\))?")
#: Between a file and the names in it.
_BESIDE = re.compile(r"\s+")
_AND = re.compile(r"(?:,|,? and|,? or)\s+")
_RUST = re.compile(
    r"^\s*(?:pub(?:\([^)]*\))? )?(?:unsafe |const |async )*"
    r"(?:fn|struct|enum|trait|type|const|static|mod) (\w+)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Named:
    """A name in a text: in a file, or wherever it may be."""

    line: int
    name: str
    file: str | None = None
    folder: str = ""  # of the file named before it: a bare name stands beside that

    @property
    def is_place(self) -> bool:
        return self.file == self.name


@dataclass
class Defined:
    """What a source defines. Members of a class: its methods, fields and attributes."""

    names: set[str] = field(default_factory=set)
    members: dict[str, set[str]] = field(default_factory=dict)
    words: set[str] = field(default_factory=set)  # in texts that the program works with

    def has(self, name: str) -> bool:
        owner, _, member = name.partition(".")
        return member in self.members.get(owner, ()) if member else name in self.names

    def take(self, other: Defined) -> None:
        self.names |= other.names
        self.words |= other.words
        for owner, members in other.members.items():
            self.members.setdefault(owner, set()).update(members)


# -- what sources define -------------------------------------------------------------------------


def defined_in(path: str, text: str) -> Defined:
    """Python by its tree, Rust by its lines, of others nothing."""
    if path.endswith(".py"):
        return _of_python(ast.parse(text))
    return Defined(set(_RUST.findall(text))) if path.endswith(".rs") else Defined()


def _of_python(tree: ast.AST) -> Defined:
    found = Defined()
    promises = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            found.names.add(node.name)
            found.members[node.name] = set(_members(node))
            found.names |= found.members[node.name]
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.names.add(node.id)
        elif isinstance(node, ast.Constant) and id(node) not in promises:  # no docstring
            found.words.update(re.findall(r"[\w-]+", str(node.value)))
    return found


def _members(owner: ast.ClassDef) -> Iterator[str]:
    for node in ast.walk(owner):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
    for node in owner.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


# -- what texts name -----------------------------------------------------------------------------


def named(text: str) -> Iterator[Named]:
    """Files and names between backticks; what stands in a block of code is left alone."""
    prose = re.sub(r"^```.*?^```", _blank, text, flags=re.MULTILINE | re.DOTALL)
    file: str | None = None
    folder, after = "", -1
    for span in re.finditer(r"`([^`]+)`", prose):
        name, line = span[1], prose.count("\n", 0, span.start()) + 1
        gap = prose[after : span.start()] if after >= 0 else "\n\n"
        if "\n\n" in gap or "\n|" in gap:
            folder = ""
        after = span.end()
        if _PLACE.fullmatch(name):
            yield Named(line, name, name, folder)
            file, is_first = name, True
            if "/" in name.rstrip("/"):
                folder = name.rpartition("/")[0] + "/"
            elif name.endswith("/"):
                folder = folder or name
        elif file and _NAME.fullmatch(name) and (_BESIDE if is_first else _AND).fullmatch(gap):
            yield Named(line, name.removesuffix("()"), file, folder)
            is_first = False
        else:
            file = None
            yield Named(line, name)


def _blank(block: re.Match[str]) -> str:
    return "\n" * block[0].count("\n")


@dataclass(frozen=True, kw_only=True)
class Tree:
    """What names are looked up in."""

    read: Callable[[str], str | None]  # a file's text; empty for a folder, None: nothing is there
    product: Defined
    settings: frozenset[str]
    targets: frozenset[str]  # of the Makefile

    def find(self, one: Named) -> str | None:
        """The path of its file."""
        assert one.file is not None
        places = [base + beside + one.file for base in BASES for beside in ("", one.folder)]
        return next((place for place in places if self.read(place) is not None), None)


def wrong_names(text: str, tree: Tree) -> Iterator[str]:
    for one in named(text):
        if one.name not in tree.settings:
            wrong = _in_no_file(one, tree) if one.file is not None else _nowhere(one.name, tree)
            if wrong is not None:
                yield f"line {one.line}: {wrong}"


def _in_no_file(one: Named, tree: Tree) -> str | None:
    place = tree.find(one)
    if one.is_place:
        is_there = place is not None or one.name.startswith(BUILT)
        return None if is_there else f"{one.name} is not there"
    if place is None or defined_in(place, tree.read(place) or "").has(one.name):
        return None  # or the file is told already
    return f"{one.file} has no {one.name}"


def _nowhere(name: str, tree: Tree) -> str | None:
    if name.startswith("make "):
        target = name.split()[1]
        return None if target in tree.targets else f"the Makefile has no {target}"
    name = name.removesuffix("()")
    if not _NAME.fullmatch(name) or tree.product.has(name):
        return None
    section, _, key = name.partition(".")
    if key and section in {key.partition(".")[0] for key in tree.settings}:
        return f"{name} is no setting"
    if _is_ours(name) and name not in tree.product.words:
        return f"nothing is called {name}"
    return None


def _is_ours(name: str) -> bool:
    """By its looks: `Class.member`, two_words, CamelCase; words of prose and of Kafka are not."""
    if name in OF_OTHERS:
        return False
    owner, _, member = name.partition(".")
    if member:
        return owner[0].isupper() or owner.startswith("_")
    return "_" in name.strip("_") or bool(re.fullmatch(r"(?:[A-Z][a-z]+){2,}", name))


def broken_links(text: str, read: Callable[[str], str | None], folder: str) -> Iterator[str]:
    """Links to files of ours."""
    for link in re.findall(r"\]\(([^)#\s]+)", text):
        path = (Path("/") / folder / link).resolve().relative_to("/").as_posix()
        if not re.match(r"\w+:", link) and read(path) is None:
            yield f"{link} is not there"


# -- the tree ------------------------------------------------------------------------------------


@cache
def read(path: str) -> str | None:
    place = ROOT / path
    if place.is_dir() or (place.suffix == ".png" and place.is_file()):
        return ""
    return place.read_text(encoding="utf-8") if path and place.is_file() else None


@cache
def product() -> Defined:
    found = Defined()
    for folder in PRODUCT:
        for path in sorted((ROOT / folder).rglob("*.py")):
            found.take(_of_python(ast.parse(path.read_text(encoding="utf-8"))))
    return found


@pytest.mark.parametrize("path", TEXTS)
def test_what_a_text_names_is_there(path: str) -> None:
    text = read(path)
    assert text is not None
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    tree = Tree(
        read=read,
        product=product(),
        settings=frozenset(setting.key for setting in SETTINGS),
        targets=frozenset(targets),
    )
    wrong = [f"{path}: {violation}" for violation in wrong_names(text, tree)]
    assert not wrong, "\n".join(["", *wrong])


def test_links_between_the_texts_lead_somewhere() -> None:
    texts = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    assert len(texts) > len(TEXTS)
    wrong = [
        f"{path.relative_to(ROOT)}: {violation}"
        for path in texts
        for violation in broken_links(
            path.read_text(encoding="utf-8"), read, path.parent.relative_to(ROOT).as_posix()
        )
    ]
    assert not wrong, "\n".join(["", *wrong])


def test_what_belongs_to_others_is_named() -> None:
    texts = "".join(read(path) or "" for path in TEXTS)
    assert [name for name in OF_OTHERS if not re.search(rf"\b{name}\b", texts)] == []


def test_the_design_names_enough_to_find_ones_way() -> None:
    found = [one for one in named(read("DESIGN.md") or "") if one.file is not None]
    functions = {one for one in found if not one.is_place}
    assert len({one.file for one in found}) > 100
    assert len(functions) > 100


# -- the checks can fail -------------------------------------------------------------------------

_TREE = {
    "sidecar/halfhitch/core/x.py": (
        "LIMIT = 3\nclass Ledger:\n    size: int\n    def take(self):\n"
        "        self.count = 'A_TAG'\n"
    ),
    "native/src/front.rs": "pub struct Front;\n    fn take_held() {}\n// fn gone() {}\n",
    "sidecar/halfhitch/core/": "",
    "docs/y.md": "",
}


def _wrong(text: str) -> list[str]:
    tree = Tree(
        read=_TREE.get,
        product=defined_in("x.py", _TREE["sidecar/halfhitch/core/x.py"]),
        settings=frozenset({"checks.interval_s"}),
        targets=frozenset({"test"}),
    )
    return list(wrong_names(text, tree))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("`core/gone.py`", "core/gone.py is not there"),
        ("`core/`, `gone.py`", "gone.py is not there"),
        ("| `core/` | x |\n| `x.py` | y |", "x.py is not there"),
        ("`core/x.py` `gone`", "core/x.py has no gone"),
        ("`core/x.py`\n`Ledger.gone`", "core/x.py has no Ledger.gone"),
        ("`core/x.py` `Ledger.take`, `gone`", "core/x.py has no gone"),
        ("`core/x.py` `take` and `gone()`", "core/x.py has no gone"),
        ("`native/src/front.rs` `gone`", "native/src/front.rs has no gone"),
        ("first `Ledger.gone`", "nothing is called Ledger.gone"),
        ("first `Gone.take`", "nothing is called Gone.take"),
        ("a `gone_name`", "nothing is called gone_name"),
        ("a `GoneClass`", "nothing is called GoneClass"),
        ("a\n\n`B_TAG`", "line 3: nothing is called B_TAG"),
        ("`checks.gone_s`", "checks.gone_s is no setting"),
        ("`make gone`", "the Makefile has no gone"),
        ("```\n`a_b`\n```\n`c_d`", "line 4: nothing is called c_d"),
    ],
)
def test_a_wrong_name_is_found(text: str, says: str) -> None:
    (wrong,) = _wrong(text)
    assert wrong.endswith(says)


@pytest.mark.parametrize(
    "text",
    [
        "`core/x.py` `Ledger.take`, `Ledger.count` and `LIMIT`",
        "`sidecar/halfhitch/core/x.py`\n`take()` takes",
        "in `core/` there is `x.py`",
        "`native/src/front.rs` `take_held`, `Front`",
        "`Ledger.size`, `take`, `A_TAG`, `checks.interval_s`, `make test`, `build/native`",
        "what is others': `linger.ms=0`, `/readyz`, `POST /v1/half`, `read_committed`",
        "```\n`core/gone.py`\n```",
        "`core/x.py` is one thing, `purge` another",
    ],
)
def test_a_right_name_is_left_alone(text: str) -> None:
    assert _wrong(text) == []


def test_a_broken_link_is_found() -> None:
    text = "[a](y.md) [b](gone.md) [c](../docs/y.md#z) [d](https://example/gone) [e](#z)"
    assert list(broken_links(text, _TREE.get, "docs")) == ["gone.md is not there"]
