"""native/crates.lock: nothing is built of a crate that is not on the list as it stands there."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "native"


def _load() -> Any:
    spec = importlib.util.spec_from_file_location("crates", NATIVE / "crates.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


crates = _load()
needs_cargo = pytest.mark.skipif(shutil.which("cargo") is None, reason="Rust is not installed")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """What cargo looks at before it builds."""
    for name in ("Cargo.toml", "crates.lock", "crates.py"):
        shutil.copy(NATIVE / name, tmp_path)
    shutil.copytree(NATIVE / "src", tmp_path / "src")
    return tmp_path


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-B", str(folder / "crates.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=170,
        env={**os.environ, "CARGO_NET_RETRY": "5"},
    )


def test_every_crate_is_listed_once_with_a_checksum() -> None:
    text = (NATIVE / "crates.lock").read_text()
    found = crates.listed(text)
    assert crates.written(found) == text
    assert len({(crate.name, crate.version) for crate in found}) == len(found) > 20
    assert all(re.fullmatch("[0-9a-f]{64}", crate.checksum) for crate in found)


def test_what_the_manifest_asks_for_is_on_the_list() -> None:
    manifest = (NATIVE / "Cargo.toml").read_text().partition("[dependencies]")[2]
    asked = re.findall(r'^(\w+) = .*?"=([0-9.]+)"', manifest.partition("[profile")[0], re.MULTILINE)
    listed = {
        (crate.name, crate.version) for crate in crates.listed((NATIVE / "crates.lock").read_text())
    }
    assert len(asked) >= 8
    assert set(asked) <= listed


def test_a_line_that_is_none_is_refused() -> None:
    with pytest.raises(
        crates.CratesError, match="'libc 1' is not a name, a version and a checksum"
    ):
        crates.listed("# a comment\nlibc 1\n")


@needs_cargo
def test_the_list_makes_a_lock_file_that_cargo_takes_as_it_is(copy: Path) -> None:
    done = run(copy)
    assert (done.returncode, done.stderr) == (0, "")
    text = (copy / "Cargo.lock").read_text()
    assert crates.locked(text) == crates.listed((copy / "crates.lock").read_text())
    assert "dependencies = [" in text
    assert run(copy).returncode == 0  # and leaves it alone
    assert (copy / "Cargo.lock").read_text() == text
    # Another list, and the lock file is made anew, or not at all.
    (copy / "crates.lock").write_text(text_without((copy / "crates.lock").read_text(), "memchr"))
    done = run(copy)
    assert done.returncode == 1
    assert "needed, not listed: memchr" in done.stderr
    assert not (copy / "Cargo.lock").exists()


def text_without(text: str, name: str) -> str:
    lines = text.splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(name + " ")]
    assert len(kept) == len(lines) - 1
    return "".join(kept)


@needs_cargo
@pytest.mark.parametrize("name", ["libc", "itoa"])  # asked for by us, and by what we ask for
def test_a_changed_checksum_stops_the_build(copy: Path, name: str) -> None:
    lock = copy / "crates.lock"
    (line,) = re.findall(rf"^{name} .*$", lock.read_text(), re.MULTILINE)
    changed = line[:-1] + ("0" if line[-1] != "0" else "1")
    lock.write_text(lock.read_text().replace(line, changed))
    done = run(copy)
    assert done.returncode == 1
    assert f"checksum for `{name} v" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("Nothing is built.")
    assert not (copy / "Cargo.lock").exists()


@needs_cargo
@pytest.mark.parametrize("name", ["libc", "itoa"])
def test_a_changed_version_stops_the_build(copy: Path, name: str) -> None:
    lock = copy / "crates.lock"
    (crate,) = [crate for crate in crates.listed(lock.read_text()) if crate.name == name]
    major, minor, patch = crate.version.split(".")
    changed = f"{name} {major}.{minor}.{int(patch) - 1}"
    lock.write_text(lock.read_text().replace(f"{name} {crate.version}", changed))
    done = run(copy)
    assert done.returncode == 1
    # Cargo takes no other version than the one asked for, or finds that the checksum is another's.
    assert (
        f"listed, not needed: {changed}" in done.stderr or f"checksum for `{name} v" in done.stderr
    )
    assert not (copy / "Cargo.lock").exists()


@needs_cargo
def test_a_lock_file_that_was_changed_by_hand_is_made_anew(copy: Path) -> None:
    assert run(copy).returncode == 0
    good = (copy / "Cargo.lock").read_text()
    (line,) = re.findall(r'name = "itoa"\nversion = "([0-9.]+)"', good)
    (copy / "Cargo.lock").write_text(
        good.replace(f'"itoa"\nversion = "{line}"', '"itoa"\nversion = "1.0.1"')
    )
    assert run(copy).returncode == 0
    assert (copy / "Cargo.lock").read_text() == good


def test_every_build_goes_by_the_list() -> None:
    done = subprocess.run(
        ["make", "-n", "native", "RUST=yes"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.index("native/crates.py") < done.stdout.index("cargo build --locked")
    makefile = (ROOT / "Makefile").read_text()
    built = re.findall(r"cargo (?:build|clippy|test|rustc) (?!--version).*", makefile)
    assert len(built) >= 2
    assert all("--locked" in line for line in built), built


def parts() -> dict[str, Any]:
    """As little as cyclonedx-py says."""
    return {
        "bomFormat": "CycloneDX",
        "components": [{"bom-ref": "requirements-L1", "name": "redis", "type": "library"}],
        "dependencies": [{"ref": "requirements-L1"}, {"ref": "root"}],
        "metadata": {"component": {"bom-ref": "root", "name": "halfhitch"}},
    }


def test_the_crates_stand_in_the_list_of_parts_with_their_checksums(tmp_path: Path) -> None:
    """It named the Python packages alone, beside a library that is made of dozens of crates."""
    file = tmp_path / "sbom.json"
    file.write_text(json.dumps(parts()))
    assert crates.main(["--sbom", str(file)]) == 0
    once = file.read_text()
    assert crates.main(["--sbom", str(file)]) == 0
    assert file.read_text() == once, "again, it changes nothing"
    found = json.loads(once)
    listed = crates.listed((NATIVE / "crates.lock").read_text())
    by_purl = {one["purl"]: one for one in found["components"] if "purl" in one}
    assert len(by_purl) == len(listed) + 1
    for crate in listed:
        one = by_purl[f"pkg:cargo/{crate.name}@{crate.version}"]
        assert one["hashes"] == [{"alg": "SHA-256", "content": crate.checksum}]
    needs = {one["ref"]: one.get("dependsOn", []) for one in found["dependencies"]}
    (own,) = needs["root"]
    assert by_purl[own]["name"] == "halfhitch-native"
    assert set(needs[own]) == set(by_purl) - {own}
    assert set(needs) == {one["bom-ref"] for one in found["components"]} | {"root"}


def test_a_list_of_parts_that_is_of_nothing_in_particular_gets_them_too() -> None:
    given = {**parts(), "metadata": {}, "dependencies": []}
    crates.add_parts(given, [crates.Crate("a", "1", "0" * 64)], "2")
    assert given["dependencies"] == [
        {"ref": "pkg:pypi/halfhitch-native@2", "dependsOn": ["pkg:cargo/a@1"]},
        {"ref": "pkg:cargo/a@1"},
    ]
