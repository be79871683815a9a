"""Releases that came before: their sources out of the history, and sidecars that run them.

Owns `RELEASES`. A release stands for the commit before something changed that instances share: the
form of a record, of a handle, of what lies in Redis. It runs on the packages of this environment,
for only the project's own sources are taken from the history. Where there is no history (a source
archive, a shallow clone) a scenario that needs it is *not run*, and says so.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.places import ROOT

if TYPE_CHECKING:
    from chaos.kit.fault_sidecar import FaultSidecar

#: What a sidecar is made of.
_PACKAGES = ("sidecar", "cli")
_FOLDER = ROOT / "build" / "releases"


@dataclass(frozen=True, slots=True)
class Release:
    """One of them."""

    name: str
    commit: str
    #: What it does not know yet.
    before: str


RELEASES = {
    release.name: release
    for release in (
        Release(
            "before-seals",
            "d3dfc9e21d5f3a506ecb5553fd8b62f4e957f92f",
            "ends over RocketMQ's protocol are sealed; parked records say who has decided",
        ),
        Release(
            "before-proofs",
            "1afe6c46d50362178f3045ab1203d358a6874a0b",
            "steps prove their watermarks; handles bind the installation; inboxes hold no message",
        ),
        Release(
            "before-digests",
            "5142197bc0d2a68b112b3b32f2fde8c4a10bc658",
            "halves and done marks say what the messages were",
        ),
        Release(
            "before-counts",
            "a86e5ee256e487831c1562d0c3fd53bc673a3e4e",
            "forwarded records say how many messages their transaction has",
        ),
    )
}


def sources(release: Release) -> Path:
    """A folder with its packages; raises LookupError where its commit is not in the history."""
    place = _FOLDER / release.commit
    if not place.exists():
        unfinished = place.with_name(f"{place.name}.{os.getpid()}")
        unfinished.mkdir(parents=True)
        with tarfile.open(fileobj=io.BytesIO(_archive(release))) as archive:
            archive.extractall(unfinished, filter="data")
        unfinished.rename(place)
    told = _run(
        [sys.executable, "-c", "import halfhitch_cli as m; print(m.__file__)"],
        env={**os.environ, "PYTHONPATH": search_path(place)},
        what=f"release {release.name} does not run in this environment",
    )
    if not Path(told.decode().strip()).is_relative_to(place):
        raise RuntimeError(f"not the sources of {release.name}: {told.decode()}")
    return place


def search_path(place: Path) -> str:
    """For the environment variable PYTHONPATH of its processes."""
    return os.pathsep.join(str(place / package) for package in _PACKAGES)


def run_as(sidecar: FaultSidecar, release: Release | None) -> None:
    """Its next life is of this release; None: of the tree as it lies here."""
    own = os.environ.get("PYTHONPATH", "")
    sidecar.release = None if release is None else release.name
    sidecar.environment["PYTHONPATH"] = own if release is None else search_path(sources(release))


def _archive(release: Release) -> bytes:
    return _run(
        ["git", "-C", str(ROOT), "archive", release.commit, *_PACKAGES],
        env=None,
        what=f"release {release.name} needs the project's history with commit {release.commit}",
    )


def _run(command: list[str], *, env: dict[str, str] | None, what: str) -> bytes:
    try:
        ended = subprocess.run(command, env=env, capture_output=True, check=False)
    except FileNotFoundError as error:
        raise LookupError(f"{what}: {error}") from None
    if ended.returncode:
        raise LookupError(f"{what}: {ended.stderr.decode(errors='replace').strip()[-300:]}")
    return ended.stdout
