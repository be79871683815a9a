"""Manifests as text: which documents have pods, and what is around them stays as it was.

Owns `Manifests`, the documents of one stream. A document without pods keeps its bytes; one that is
changed keeps its comments, its order and the indentation of its lists, and has no aliases any more:
a change of one place is none of another. JSON stays JSON: kubectl takes what begins with a brace
for that. Lines end as they did. What is no manifest is refused with its place. What makes pods is
in workloads.py.
"""

import itertools
import json
import re
from collections.abc import Iterator, MutableMapping
from io import StringIO
from typing import Any, Final

from halfhitch_cli.workloads import NoManifest, Workload, is_known, left_alone

_DIVIDER: Final = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_INDENTED_JSON: Final = re.compile(r"^\s*[{\[]\r?\n([ \t]+)\"")
_INDENTED: Final = re.compile(r"^( *)(?:- )?[\w.\"'/-]+:[ \t]*(?:#.*)?\n\1  - ", re.MULTILINE)


class Manifests:
    """The documents of one stream, called `name` in messages."""

    def __init__(self, name: str, text: str) -> None:
        self._parts: list[str] = []
        self._documents: dict[int, Any] = {}
        self._all: list[tuple[str, MutableMapping[str, Any]]] = []
        self._yaml = _yaml(text.replace("\r\n", "\n"))
        begins = [0, *(found.start() for found in _DIVIDER.finditer(text) if found.start())]
        for begin, end in zip(begins, [*begins[1:], len(text)], strict=True):
            self._parts += _separate(text[begin:end])
        for number, part in enumerate(self._parts, 1):
            where = f"{name}, document {number}" if len(self._parts) > 1 else name
            self._read(number - 1, where, part.replace("\r\n", "\n"))

    def _read(self, at: int, where: str, part: str) -> None:
        from ruamel.yaml.error import YAMLError

        from halfhitch_cli.manifest_yaml import Tangled, written_out

        try:
            is_json, document = _json(part)
            if not is_json:
                document = written_out(self._yaml.load(part))
        except YAMLError as error:
            line = str(getattr(error, "problem", None) or error).splitlines()[0]
            raise NoManifest(f"{where}: it is not YAML ({line}).") from None
        except Tangled as error:
            raise NoManifest(f"{where}: {error}.") from None
        except RecursionError:
            raise NoManifest(f"{where}: it is nested too deeply.") from None
        if document is None:
            return
        self._documents[at] = document
        self._all += _objects(where, document)

    def objects(self) -> list[MutableMapping[str, Any]]:
        """Every object, those of lists too."""
        return [one for _, one in self._all]

    def workloads(self) -> Iterator[Workload]:
        """Those that make pods."""
        for where, one in self._all:
            if is_known(one):
                yield Workload(where, one)

    def left_alone(self) -> Iterator[str]:
        """A sentence for each of the others that looks as if it made pods as well."""
        for where, one in self._all:
            if said := left_alone(where, one):
                yield said

    def text(self, *, everything: bool = False) -> str:
        """All of it. Documents without pods keep their bytes, unless `everything` was changed."""
        parts = list(self._parts)
        for at, document in self._documents.items():
            if everything or any(is_known(one) for _, one in _objects("", document)):
                before = self._parts[at]
                end = _line_end(before)
                parts[at] = self._written(document, before.replace("\r\n", "\n"))
                parts[at] = parts[at].replace("\n", end)
        last = _line_end(self._parts[0])
        return "".join(part if part.endswith("\n") or not part else part + last for part in parts)

    def _written(self, document: Any, before: str) -> str:
        divider = _DIVIDER.match(before)
        if _json(before)[0]:
            return ("---\n" if divider else "") + _dumped(document, _body(before))
        stream = StringIO()
        self._yaml.dump(document, stream)
        text = stream.getvalue()
        # ruamel writes a divider itself only where directives ask for one.
        if divider is not None and not text.startswith("---"):
            first = before.partition("\n")[0] if before.startswith("---\n") else "---"
            text = f"{first}\n{text}"
        return text


def _line_end(text: str) -> str:
    """Of its first line."""
    return "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"


def _separate(part: str) -> list[str]:
    """JSON objects that follow one another, as kubectl takes them, without a divider."""
    body = _body(part)
    if not body.lstrip().startswith("{"):
        return [part]
    decoder, begins, at = json.JSONDecoder(), [], 0
    try:
        while rest := body[at:].lstrip():
            begins.append(len(body) - len(rest))
            at = decoder.raw_decode(body, begins[-1])[1]
    except (ValueError, RecursionError):
        return [part]  # YAML, or what reads it says what is wrong
    ahead = len(part) - len(body)
    cuts = [0, *(ahead + begin for begin in begins[1:]), len(part)]
    return [part[begin:end] for begin, end in itertools.pairwise(cuts)]


def _body(part: str) -> str:
    """What stands behind the divider."""
    divider = _DIVIDER.match(part)
    return part[divider.end() if divider else 0 :].removeprefix("\ufeff")


def _json(part: str) -> tuple[bool, Any]:
    """Whether it is JSON, and what it says. YAML that looks alike (unquoted keys) is none."""
    body = _body(part)
    if not body.lstrip().startswith("{"):
        return False, None
    try:
        return True, json.loads(body, object_pairs_hook=_unique)
    except ValueError:
        return False, None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")  # what reads YAML says which
    return found


def _dumped(document: Any, before: str) -> str:
    """In the form that it had."""
    found = _INDENTED_JSON.match(before)
    is_line = "\n" not in before.strip()
    text = json.dumps(
        document,
        ensure_ascii=before.isascii(),
        indent=None if is_line else found[1] if found else 4,
        separators=(",", ":") if is_line and '":"' in before else None,
    )
    return text + "\n"


def _objects(where: str, document: Any) -> list[tuple[str, MutableMapping[str, Any]]]:
    if not isinstance(document, MutableMapping):
        raise NoManifest(
            f"{where}: it is no manifest, for it is no mapping with apiVersion and kind."
        )
    for name in ("apiVersion", "kind"):
        if not isinstance(document.get(name), str):
            raise NoManifest(f"{where}: it is no manifest, for it has no {name}.")
    if not document["kind"].endswith("List") or not _is_list(document):
        return [(where, document)]
    items = document["items"] or []
    return [
        found
        for number, item in enumerate(items, 1)
        for found in _objects(f"{where}, item {number}", item)
    ]


def _is_list(document: MutableMapping[str, Any]) -> bool:
    """Others may call themselves so, and have items that are no objects."""
    items = document.get("items", "")
    if document["kind"] == "List" or not items:
        return items is None or isinstance(items, list)
    return isinstance(items, list) and all(
        isinstance(one, MutableMapping) and "kind" in one for one in items
    )


def _yaml(text: str) -> Any:
    from halfhitch_cli.manifest_yaml import reader

    return reader(is_indented=_INDENTED.search(text) is not None)
