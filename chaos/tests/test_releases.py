"""Releases out of the history: their sources and nobody else's, or a word why there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chaos.kit import releases
from chaos.kit.fault_sidecar import FaultSidecar
from chaos.kit.releases import RELEASES, Release, run_as, search_path, sources
from chaos.kit.scenarios import SCENARIOS

if TYPE_CHECKING:
    from pathlib import Path

NOWHERE = Release("of-nobody", "0" * 40, "anything")


def test_without_its_commit_in_the_history_a_release_is_not_run() -> None:
    with pytest.raises(LookupError, match=r"of-nobody needs the project's history"):
        sources(NOWHERE)


def test_sources_that_lie_there_already_are_tried_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases, "_FOLDER", tmp_path)
    package = tmp_path / NOWHERE.commit / "cli" / "halfhitch_cli"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import nobody_has_this")
    with pytest.raises(LookupError, match="does not run in this environment"):
        sources(NOWHERE)
    (package / "__init__.py").write_text("")
    assert sources(NOWHERE) == tmp_path / NOWHERE.commit
    sidecar = FaultSidecar("kafka:9092", tmp_path)
    run_as(sidecar, NOWHERE)
    assert sidecar.release == NOWHERE.name  # whose way is nobody's business
    assert sidecar.environment["PYTHONPATH"] == search_path(tmp_path / NOWHERE.commit)
    monkeypatch.setenv("PYTHONPATH", "as-it-was")
    run_as(sidecar, None)
    assert sidecar.release is None
    assert sidecar.environment["PYTHONPATH"] == "as-it-was"


@pytest.mark.parametrize("name", RELEASES)
def test_every_release_is_rolled_from_and_back(name: str) -> None:
    assert {f"upgrade-{name}", f"upgrade-kill-{name}"} <= set(SCENARIOS)
