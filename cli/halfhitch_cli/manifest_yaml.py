"""YAML of manifests: what a file has stays as it was written, what is new is text to every reader.

Owns `reader`, which loads and dumps documents, and `written_out`, a document without aliases and
merges. kubectl reads YAML 1.1, where `off`, `1_000` and `12:30` are no texts; ruamel writes 1.2.
Imported only where ruamel is sure to be there (extra kubernetes).
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.anchor import Anchor
from ruamel.yaml.comments import Comment, CommentedMap, CommentedSeq, merge_attrib
from ruamel.yaml.constructor import RoundTripConstructor
from ruamel.yaml.representer import RoundTripRepresenter
from ruamel.yaml.scalarstring import PlainScalarString

_TEXT: Final = "tag:yaml.org,2002:str"
#: What begins so is a text in every version of YAML, but for these words.
_SURELY_TEXT: Final = re.compile(r"[A-Za-z/]")
_NO_TEXTS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
#: Of a page of aliases that name aliases grows a list that no memory holds.
_COPIES_MAX: Final = 100_000


class Tangled(Exception):
    """Aliases that cannot be written out; the text says why."""


class _AsWritten(PlainScalarString):
    """A plain scalar of the file: it stays one, whatever the reader takes it for."""

    def __new__(cls, text: str, anchor: Any = None, *, is_read: bool = False) -> Any:
        # A CommentedMap makes a new value of the class that the old one had. That is ours to quote.
        return super().__new__(cls, text, anchor=anchor) if is_read else str(text)


class _Odd(PlainScalarString):
    """What ruamel takes for a number or a time and would write as another one; `tag` says which.

    `03E8`, a commit's number, would become `30E7`; a time would lose its nanoseconds.
    """

    tag: str


class _Reads(RoundTripConstructor):
    def construct_yaml_str(self, node: Any) -> Any:
        found = super().construct_yaml_str(node)
        if type(found) in (str, PlainScalarString):
            return _AsWritten(found, anchor=node.anchor, is_read=True)
        return found

    def construct_yaml_int(self, node: Any) -> Any:
        return _exactly(super().construct_yaml_int, node)

    def construct_yaml_float(self, node: Any) -> Any:
        return _exactly(super().construct_yaml_float, node)

    def construct_as_written(self, node: Any) -> Any:
        return _as_it_stands(node)


def _exactly(construct: Callable[[Any], Any], node: Any) -> Any:
    """The number, if ruamel writes it as it stands there; else as it stands there."""
    try:
        found = construct(node)
        if _Writes().represent_data(found).value == node.value:
            return found
    except (ValueError, IndexError):
        pass
    return _as_it_stands(node)


def _as_it_stands(node: Any) -> Any:
    odd = _Odd(node.value, anchor=node.anchor)
    odd.tag = node.tag
    return odd


class _Writes(RoundTripRepresenter):
    def represent_str(self, data: str) -> Any:
        is_plain = _SURELY_TEXT.match(data) and data.lower() not in _NO_TEXTS
        return self.represent_scalar(_TEXT, data, style=None if is_plain else "'")

    def represent_odd(self, data: _Odd) -> Any:
        return self.represent_scalar(data.tag, data, anchor=data.yaml_anchor(any=True))


_Reads.add_constructor(_TEXT, _Reads.construct_yaml_str)
_Reads.add_constructor("tag:yaml.org,2002:int", _Reads.construct_yaml_int)
_Reads.add_constructor("tag:yaml.org,2002:float", _Reads.construct_yaml_float)
_Reads.add_constructor("tag:yaml.org,2002:timestamp", _Reads.construct_as_written)
_Writes.add_representer(str, _Writes.represent_str)
_Writes.add_representer(_Odd, _Writes.represent_odd)
_Writes.add_representer(_AsWritten, _Writes.represent_plain_scalarstring)


def reader(*, is_indented: bool) -> YAML:
    """Loads and dumps. `is_indented`: the items of lists stand further in than the list's name."""
    yaml = YAML(typ="rt")
    yaml.Constructor = _Reads
    yaml.Representer = _Writes
    yaml.preserve_quotes = True
    yaml.width = 1_000_000
    if is_indented:
        yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


def written_out(document: Any) -> Any:
    """The document, where nothing is in two places any more: what changes one leaves the other.

    What stands first keeps its comments; what an alias or a merge stood for is written out.
    """
    return _WritingOut().of(document)


class _WritingOut:
    def __init__(self) -> None:
        # By identity; kept, for of a node that is gone the next one would have the identity.
        self._seen: dict[int, Any] = {}
        self._copies = 0

    def of(self, node: Any) -> Any:
        if not isinstance(node, CommentedMap | CommentedSeq):
            return node
        is_again = id(node) in self._seen
        self._seen[id(node)] = node
        if is_again or getattr(node, merge_attrib, None):
            return self._copy(node, is_again=is_again)
        for place, value in _members(node):
            alone = self.of(value)
            if alone is not value:
                node[place] = alone
        return node

    def _copy(self, node: Any, *, is_again: bool) -> Any:
        self._copies += 1
        if self._copies > _COPIES_MAX:
            raise Tangled(f"its aliases stand for more than {_COPIES_MAX:,} lists and mappings")
        fresh = type(node)()
        node.copy_attributes(fresh)
        for name in (merge_attrib, Anchor.attrib, *((Comment.attrib,) if is_again else ())):
            if hasattr(fresh, name):
                delattr(fresh, name)
        for place, value in _members(node):
            alone = self.of(value)
            if isinstance(fresh, CommentedMap):
                fresh[place] = alone
            else:
                fresh.append(alone)
        return fresh


def _members(node: Any) -> Iterable[tuple[Any, Any]]:
    return list(node.items() if isinstance(node, CommentedMap) else enumerate(node))
