"""The native way's dependencies, every one by version and checksum: crates.lock.

    python native/crates.py           Cargo.lock from crates.lock, or a reason why not
    python native/crates.py --renew   the newest that Cargo.toml allows into crates.lock

Cargo's own lock file says besides where the crates come from, and that is each machine's own
setting. So it is made here, for `cargo build --locked`: cargo works out who needs whom, and
compares each checksum with the registry's; that what it found is this list, no more and no less, is
compared here. It is run before each build, and costs nothing when the lock file is right.
"""

import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

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
        elif not arguments:
            make_lock(HERE)
        else:
            raise CratesError("it takes nothing, or --renew")
    except CratesError as error:
        sys.stderr.write(
            f"native/crates.py: {error}\nNothing is built. `make lock` renews the list: read what"
            " changed before you keep it.\n"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
