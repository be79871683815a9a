"""The native way's dependencies, every one by version and checksum: crates.lock.

    python native/crates.py           Cargo.lock from crates.lock, or a reason why not
    python native/crates.py --renew   the newest that Cargo.toml allows into crates.lock
    python native/crates.py --sbom F  what is on the list into F, a list of parts (CycloneDX)

Cargo's own lock file says besides where the crates come from, and that is each machine's own
setting. So it is made here, for `cargo build --locked`: cargo works out who needs whom, and
compares each checksum with the registry's; that what it found is this list, no more and no less, is
compared here. It is run before each build, and costs nothing when the lock file is right.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
_HEAD = """\
# Name, version and SHA-256 of every crate that the native way is built of, for crates.py.
# Made by `make lock`; where crates come from is each machine's own setting.
"""


class Crate(NamedTuple):
    """A line of crates.lock."""

    name: str
    version: str
    checksum: str


class CratesError(Exception):
    """The text says what does not agree, and what to do."""


def listed(text: str) -> list[Crate]:
    """What crates.lock says."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    for line in lines:
        if len(line.split()) != 3:
            raise CratesError(f"crates.lock: {line!r} is not a name, a version and a checksum")
    return sorted(Crate(*line.split()) for line in lines)


def locked(text: str) -> list[Crate]:
    """What Cargo.lock says, our own package excepted."""
    packages = tomllib.loads(text).get("package", [])
    return sorted(
        Crate(package["name"], package["version"], package.get("checksum", ""))
        for package in packages
        if "source" in package
    )


def written(crates: list[Crate]) -> str:
    """crates.lock."""
    return _HEAD + "".join(f"{crate.name} {crate.version} {crate.checksum}\n" for crate in crates)


def unlinked(crates: list[Crate], source: str) -> str:
    """A Cargo.lock that does not say who needs whom; cargo adds that."""
    tables = [
        f'[[package]]\nname = "{crate.name}"\nversion = "{crate.version}"\n'
        f'source = "{source}"\nchecksum = "{crate.checksum}"\n'
        for crate in crates
    ]
    return "version = 4\n\n" + "\n".join(tables)


def make_lock(folder: Path) -> None:
    """Cargo.lock of `folder`, as its crates.lock says; CratesError when that cannot be."""
    wanted = listed((folder / "crates.lock").read_text())
    lock = folder / "Cargo.lock"
    if lock.exists() and locked(lock.read_text()) == wanted:
        return
    source = _source(folder)
    lock.write_text(unlinked(wanted, source))
    try:
        _cargo(
            folder, "update", "--workspace"
        )  # takes what is there, and adds only what is missing
        found = locked(lock.read_text())
        if found != wanted:
            raise CratesError(_difference(wanted, found))
    except CratesError:
        lock.unlink()
        raise


def renew(folder: Path) -> None:
    """crates.lock anew."""
    _cargo(folder, "update")
    found = locked((folder / "Cargo.lock").read_text())
    (folder / "crates.lock").write_text(written(found))


def add_parts(parts: dict[str, Any], crates: list[Crate], version: str) -> None:
    """The native way and its crates into a list of parts, as CycloneDX has them; again, if need be.

    Who needs which crate is not on our list: the native way needs them all.
    """
    own = f"pkg:pypi/halfhitch-native@{version}"
    added: list[dict[str, Any]] = [
        {
            "type": "library",
            "bom-ref": own,
            "name": "halfhitch-native",
            "version": version,
            "purl": own,
        }
    ]
    for crate in crates:
        purl = f"pkg:cargo/{crate.name}@{crate.version}"
        hashes = [{"alg": "SHA-256", "content": crate.checksum}]
        about = {"name": crate.name, "version": crate.version, "purl": purl, "hashes": hashes}
        added.append({"type": "library", "bom-ref": purl, **about})
    names = [one["bom-ref"] for one in added]
    parts["components"] = [
        *(one for one in parts["components"] if one.get("bom-ref") not in names),
        *added,
    ]
    needs = [one for one in parts["dependencies"] if one["ref"] not in names]
    root = parts["metadata"]["component"]["bom-ref"] if "component" in parts["metadata"] else None
    for one in needs:
        if one["ref"] == root:
            one["dependsOn"] = sorted({*one.get("dependsOn", ()), own})
    needs.append({"ref": own, "dependsOn": names[1:]})
    parts["dependencies"] = [*needs, *({"ref": name} for name in names[1:])]


def list_parts(folder: Path, file: Path) -> None:
    """Them in a file that is there."""
    parts = json.loads(file.read_text())
    version = tomllib.loads((folder / "Cargo.toml").read_text())["package"]["version"]
    add_parts(parts, listed((folder / "crates.lock").read_text()), version)
    file.write_text(json.dumps(parts, indent=2) + "\n")


def _source(folder: Path) -> str:
    """How this machine's cargo calls the place that crates come from."""
    with tempfile.TemporaryDirectory(prefix="halfhitch-crates-") as place:
        shutil.copy(folder / "Cargo.toml", place)
        (Path(place) / "src").mkdir()
        (Path(place) / "src" / "lib.rs").touch()
        _cargo(Path(place), "generate-lockfile")
        packages = tomllib.loads((Path(place) / "Cargo.lock").read_text())["package"]
    sources = {str(package["source"]) for package in packages if "source" in package}
    if len(sources) != 1:
        raise CratesError(f"crates come from {len(sources)} places, crates.lock is about one")
    return sources.pop()


def _cargo(folder: Path, *arguments: str) -> None:
    done = subprocess.run(
        ["cargo", *arguments, "--manifest-path", str(folder / "Cargo.toml")],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise CratesError(f"cargo {arguments[0]} says:\n{done.stderr.strip()}")


def _difference(wanted: list[Crate], found: list[Crate]) -> str:
    lines = [f"  listed, not needed: {crate.name} {crate.version}" for crate in wanted]
    lines = [line for line, crate in zip(lines, wanted, strict=True) if crate not in found]
    lines += [
        f"  needed, not listed: {crate.name} {crate.version}"
        for crate in found
        if crate not in wanted
    ]
    return "\n".join(["crates.lock is not what Cargo.toml needs:", *lines])


def main(arguments: list[str]) -> int:
    """Of the command above."""
    try:
        if arguments == ["--renew"]:
            renew(HERE)
        elif arguments[:1] == ["--sbom"] and len(arguments) == 2:
            list_parts(HERE, Path(arguments[1]))
        elif not arguments:
            make_lock(HERE)
        else:
            raise CratesError("it takes nothing, --renew, or --sbom and a file")
    except CratesError as error:
        sys.stderr.write(
            f"native/crates.py: {error}\nNothing is built. `make lock` renews the list: read what"
            " changed before you keep it.\n"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
