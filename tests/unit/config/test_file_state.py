"""A file that was changed, or changed its place or rights, is told from what it was."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from halfhitch.config.file_state import GONE, state_of

if TYPE_CHECKING:
    from pathlib import Path


def test_the_same_file_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("one")
    assert state_of(path) == state_of(path) != GONE


def test_another_file_in_its_place_is_another_although_it_looks_alike(tmp_path: Path) -> None:
    path, other = tmp_path / "file", tmp_path / "other"
    for each in (path, other):
        each.write_text("one")
        os.utime(each, ns=(1, 1))
    before = state_of(path)
    other.replace(path)
    assert state_of(path) != before


def test_rights_alone_make_another_state(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("one")
    before, changed_ns = state_of(path), path.stat().st_ctime_ns
    while path.stat().st_ctime_ns == changed_ns:  # its clock may tick in steps of milliseconds
        path.chmod(0o600)
        time.sleep(0)
    assert state_of(path) != before


def test_a_link_has_the_state_of_what_it_leads_to(tmp_path: Path) -> None:
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_text("one")
    link.symlink_to(path)
    assert state_of(link) == state_of(path)


def test_what_is_not_there_is_gone(tmp_path: Path) -> None:
    assert state_of(tmp_path / "file") == GONE
