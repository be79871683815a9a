"""Contents in JSON."""

from __future__ import annotations

from halfhitch.doors.admin.contents import shown_content


def test_text_is_text_and_bytes_are_base64() -> None:
    headers = [("a", b"1"), ("a", None), ("raw", b"\xff")]
    assert shown_content("ä".encode(), b"\x00\xff", headers) == {
        "key": "ä",
        "value_base64": "AP8=",
        "headers": [["a", "1"], ["a", None], ["raw", {"base64": "/w=="}]],
    }
    assert shown_content(None, b"", []) == {"key": None, "value": "", "headers": []}
