"""The reference pages are what the classes and the contract make, and leave no error out."""

from __future__ import annotations

import importlib.util
import re
from typing import TYPE_CHECKING

import pytest

from halfhitch.doors.http.errors import ERROR_CODES
from halfhitch.errors import RequestError
from harness.places import ROOT

if TYPE_CHECKING:
    from pathlib import Path

_SPEC = importlib.util.spec_from_file_location("pages_tool", ROOT / "tools" / "pages.py")
assert _SPEC is not None
assert _SPEC.loader is not None
tool = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(tool)


def test_the_pages_are_what_their_sources_make() -> None:
    old = [str(path) for path, text in tool.made() if path.read_text() != text]
    assert not old, f"python tools/pages.py, for {old}"


def test_every_error_has_advice_and_no_advice_is_left_over() -> None:
    met = set(ERROR_CODES) | {kind.code for kind in tool.client_classes()}
    of_class = {kind.code for kind in tool.client_classes() if kind.__name__ in tool._OF_CLASS}
    assert met - of_class - set(tool.ADVICE) == set()
    assert set(tool.ADVICE) - met == set()


def test_every_code_of_the_data_door_stands_on_the_page_of_errors() -> None:
    page = tool.errors_page()
    assert [code for code in ERROR_CODES if f"| `{code}` |" not in page] == []


def test_a_code_without_advice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class NewError(RequestError):
        """New."""

        code = "new_error"

    monkeypatch.setitem(tool.door_errors.STATUS_OF, NewError, 400)
    with pytest.raises(KeyError, match="new_error"):
        tool.errors_page()


@pytest.mark.parametrize("file", [tool.CONTRACT, tool.ADMIN_CONTRACT])
def test_every_request_and_every_named_value_stands_on_the_page_of_http(file: Path) -> None:
    page = tool.http_page(file)
    contract = tool.Contract(file.read_text())
    for method, path, _, _ in contract.operations():
        assert f"\n### {method} {path}\n" in page
    anchors = {
        line.removeprefix("### ").lower() for line in page.splitlines() if line[:4] == "### "
    }
    assert set(re.findall(r"\(#([a-z]+)\)", page)) <= anchors
