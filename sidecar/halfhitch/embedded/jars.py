"""Jars from a locked list: fetched once, verified, served from the user's cache.

Owns the lock files in `locks/` (coordinates, sha256 and size of every jar) and the cache folders
they fill. Invariants:

* a jar is in the cache folder under its own name only after its sha256 was checked; downloads go
  to a scratch folder first and are renamed, so an interrupted download leaves no false jar;
* processes that fetch at the same time take turns by a file lock and never see half a folder;
* every jar is read and verified each time before it is given out: sizes and times of files say
  nothing about who has written them. That takes a fraction of the time a JVM takes to start.

Where the jars come from is the business of the `jgo` package. This module names no server.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from halfhitch import extras
from halfhitch.embedded.errors import EmbeddedError, EmbeddedExtraMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KAFKA_VERSION = "4.3.1"
KAFKA_LOCK = f"kafka-{KAFKA_VERSION}"
#: The extra "demo" has the same.
SPARK_VERSION = "4.0.0"
SPARK_CONNECTOR_LOCK = f"spark-kafka-connector-{SPARK_VERSION}"
SPARK_AVRO_LOCK = f"spark-avro-{SPARK_VERSION}"
SPARK_LAKE_LOCK = f"spark-lakes-{SPARK_VERSION}"
CACHE_VARIABLE = "HALFHITCH_CACHE_DIR"

_LOCKS = Path(__file__).with_name("locks")
_DOWNLOAD_THREADS = 4
_ATTEMPTS_MAX = 3
_REQUEST_DEADLINE_S = 30
_TURN_DEADLINE_S = 900.0


@dataclass(frozen=True, slots=True)
class LockedJar:
    """One jar of a lock."""

    coordinates: str  # group:artifact:version
    sha256: str
    size_bytes: int

    @property
    def file_name(self) -> str:
        """The name in the cache folder, the same as in a Maven repository."""
        _, artifact, version = self.coordinates.split(":")
        return f"{artifact}-{version}.jar"


@dataclass(frozen=True, slots=True)
class Lock:
    """A committed list of jars; `digest` changes with any of them."""

    name: str
    folder: str  # below the cache root
    roots: tuple[str, ...]
    excluded: tuple[str, ...]
    jars: tuple[LockedJar, ...]
    digest: str


@dataclass(frozen=True, slots=True)
class FetchProgress:
    """How far a download is; given to the `on_progress` callback, always on the caller's thread."""

    name: str
    jar_count: int
    jar_count_total: int
    done_bytes: int
    total_bytes: int


def cache_root() -> Path:
    """HALFHITCH_CACHE_DIR, else `halfhitch` in XDG_CACHE_HOME, else ~/.cache/halfhitch."""
    if given := os.environ.get(CACHE_VARIABLE):
        return Path(given).expanduser().absolute()
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg).expanduser().absolute() / "halfhitch"
    return Path.home() / ".cache" / "halfhitch"


def read_lock(name: str) -> Lock:
    """Read `locks/<name>.lock.json`."""
    path = _LOCKS / f"{name}.lock.json"
    if not path.is_file():
        known = ", ".join(sorted(p.name.removesuffix(".lock.json") for p in _LOCKS.glob("*.json")))
        raise ValueError(f"there is no lock {name!r}; there are: {known}")
    text = path.read_bytes()
    content: dict[str, Any] = json.loads(text)
    return Lock(
        name=name,
        folder=content["folder"],
        roots=tuple(content["roots"]),
        excluded=tuple(content["excluded"]),
        jars=tuple(LockedJar(**jar) for jar in content["jars"]),
        digest=hashlib.sha256(text).hexdigest(),
    )


def kafka_jars(*, on_progress: Callable[[FetchProgress], None] | None = None) -> list[Path]:
    """The class path of Apache Kafka's server; fetched at the first call on a machine."""
    return fetch_locked(KAFKA_LOCK, on_progress=on_progress)


def spark_connector_jars(
    *, on_progress: Callable[[FetchProgress], None] | None = None
) -> list[Path]:
    """Spark's Kafka connector, without the jars that pyspark has in itself (for `--jars`)."""
    return fetch_locked(SPARK_CONNECTOR_LOCK, on_progress=on_progress)


def spark_avro_jars(*, on_progress: Callable[[FetchProgress], None] | None = None) -> list[Path]:
    """Spark's functions for Avro, without the jars that pyspark has in itself (for `--jars`)."""
    return fetch_locked(SPARK_AVRO_LOCK, on_progress=on_progress)


def spark_lake_jars(*, on_progress: Callable[[FetchProgress], None] | None = None) -> list[Path]:
    """Delta and Iceberg for Spark (`--jars`); of use to tests that try the sinks, 55 MB."""
    return fetch_locked(SPARK_LAKE_LOCK, on_progress=on_progress)


def fetch_locked(
    name: str, *, on_progress: Callable[[FetchProgress], None] | None = None
) -> list[Path]:
    """Return the jars of lock `name`, every one verified; download what the cache lacks."""
    lock = read_lock(name)
    folder = cache_root() / lock.folder
    if _missing(lock, folder):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with turn(folder):
                _complete(lock, folder, on_progress)
        except OSError as problem:
            # A read-only cache (baked into an image) is fine as long as it is whole.
            raise EmbeddedError(
                f"the cache folder {folder} is not complete and cannot be written ({problem})."
                f" Make it writable and give it room, or let {CACHE_VARIABLE} name another one."
            ) from problem
    return [folder / jar.file_name for jar in lock.jars]


def sha256_of(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def turn(folder: Path) -> Iterator[None]:
    """Hold the file lock of a cache folder; the kernel releases it if this process dies."""
    deadline_s = time.monotonic() + _TURN_DEADLINE_S
    with (folder / ".lock").open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline_s:
                    raise EmbeddedError(
                        f"another process has been filling {folder} for {_TURN_DEADLINE_S:.0f} s."
                        f" End it (`fuser {folder / '.lock'}` names it) and try again."
                    ) from None
                time.sleep(0.1)
        yield


def _missing(lock: Lock, folder: Path) -> list[LockedJar]:
    """The jars that are absent or differ from the lock, by reading every one."""
    return [jar for jar in lock.jars if not _is_good(jar, folder / jar.file_name)]


def _is_good(jar: LockedJar, path: Path) -> bool:
    try:
        return path.stat().st_size == jar.size_bytes and sha256_of(path) == jar.sha256
    except FileNotFoundError:
        return False


def _complete(
    lock: Lock, folder: Path, on_progress: Callable[[FetchProgress], None] | None
) -> None:
    missing = _missing(lock, folder)  # another process may have done the work meanwhile
    if missing:
        scratch = Path(tempfile.mkdtemp(prefix=".scratch-", dir=folder))
        try:
            _Download(lock, folder, scratch, missing).run(on_progress)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def write_atomically(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Write a file so that a reader sees all of it or nothing."""
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        os.fchmod(descriptor, mode)
    Path(temporary).replace(path)


class _Download:
    """One filling of a cache folder, by several threads; runs under the folder's file lock."""

    def __init__(self, lock: Lock, folder: Path, scratch: Path, missing: list[LockedJar]) -> None:
        self.lock = lock
        self.folder = folder
        self.scratch = scratch
        self.missing = missing
        self.repositories = Repositories()
        self._done: dict[str, int] = {}  # bytes by file name; one writer per key

    def run(self, on_progress: Callable[[FetchProgress], None] | None) -> None:
        with ThreadPoolExecutor(_DOWNLOAD_THREADS, "halfhitch-fetch") as pool:
            futures = {pool.submit(self._fetch, jar) for jar in self.missing}
            try:
                while futures:
                    done, futures = wait(futures, 0.1, FIRST_EXCEPTION)
                    self._tell(on_progress, len(futures))
                    for future in done:
                        future.result()
            except BaseException as problem:
                for future in futures:
                    future.cancel()
                if isinstance(problem, EmbeddedError) or not isinstance(problem, Exception):
                    raise
                raise self._explain(problem) from problem

    def _tell(
        self, on_progress: Callable[[FetchProgress], None] | None, unfinished_count: int
    ) -> None:
        if on_progress is not None:
            on_progress(
                FetchProgress(
                    name=self.lock.name,
                    jar_count=len(self.missing) - unfinished_count,
                    jar_count_total=len(self.missing),
                    done_bytes=sum(list(self._done.values())),
                    total_bytes=sum(jar.size_bytes for jar in self.missing),
                )
            )

    def _fetch(self, jar: LockedJar) -> None:
        problem: Exception | None = None
        for attempt in range(_ATTEMPTS_MAX):
            if attempt:
                time.sleep(0.5 * attempt)
            # A folder per attempt: jgo takes a file that is already there for a whole one.
            folder = self.scratch / f"{jar.file_name}.{attempt}"
            try:
                path = self.repositories.fetch(jar.coordinates, folder, self._counter(jar))
            except Exception as failure:  # noqa: BLE001 - jgo and its HTTP client raise many kinds
                problem = failure
                continue
            if _is_good(jar, path):
                path.replace(self.folder / jar.file_name)
                self._done[jar.file_name] = jar.size_bytes
                return
            problem = EmbeddedError(
                f"{jar.coordinates} was downloaded, but its content is not what the lock"
                f" {self.lock.name} says (sha256 {sha256_of(path)} instead of {jar.sha256})."
                " Something between this machine and Maven Central changes files, or hands out an"
                " error page: look at the proxy or mirror in jgo's settings file."
            )
        if problem is None:
            raise AssertionError("at least one attempt was made")
        raise problem

    def _counter(self, jar: LockedJar) -> Callable[[int], None]:
        self._done[jar.file_name] = 0

        def count(more_bytes: int) -> None:
            self._done[jar.file_name] += more_bytes

        return count

    def _explain(self, problem: Exception) -> EmbeddedError:
        missing = _missing(self.lock, self.folder)
        size_mib = sum(jar.size_bytes for jar in missing) / 2**20
        return EmbeddedError(
            f"{self.lock.name} is not complete on this machine: {len(missing)} of"
            f" {len(self.lock.jars)} jars ({size_mib:.0f} MiB) are missing in {self.folder}, and"
            f" Maven Central did not give them ({type(problem).__name__}: {problem}).\n"
            "Do one of these:\n"
            "  - run this once with a network connection (a mirror can be set in jgo's settings);\n"
            f"  - copy the folder from a machine where it works to {self.folder},\n"
            f"    or anywhere else and set {CACHE_VARIABLE} to the folder that holds"
            f" {self.lock.folder};\n"
            "  - use servers of your own instead of the embedded ones."
        )


class Repositories:
    """Where jars come from: the mirrors in the user's jgo settings, then what jgo knows itself."""

    def __init__(self) -> None:
        try:
            from jgo.config import GlobalSettings
        except ImportError as problem:
            raise EmbeddedExtraMissing(
                extras.sentence("to fetch the jars of the embedded servers", extras.EMBEDDED)
            ) from problem
        self._settings = GlobalSettings.load()

    def fetch(
        self, coordinates: str, folder: Path, count_bytes: Callable[[int], None] | None = None
    ) -> Path:
        """Put one jar below `folder` (a fresh folder) and return its path. Not verified."""
        from jgo.maven import MavenContext, PythonResolver

        @contextlib.contextmanager
        def progress(_file_name: str, _size: int) -> Iterator[Callable[[int], None]]:
            yield count_bytes or (lambda _more_bytes: None)

        context = MavenContext(
            resolver=PythonResolver(progress_callback=progress),
            repo_cache=folder,
            timeout=_REQUEST_DEADLINE_S,
        )
        # Mirrors from the user's own settings come first.
        context.remote_repos = {**self._settings.repositories, **context.remote_repos}
        group, artifact, version = coordinates.split(":")
        return Path(context.project(group, artifact).at_version(version).artifact().resolve())

    def resolve(self, roots: tuple[str, ...]) -> list[str]:
        """The coordinates of `roots` with everything they need at run time."""
        from jgo import resolve

        found = resolve("+".join(roots), repositories=self._settings.repositories or None)
        return [f"{one.groupId}:{one.artifactId}:{one.version}" for one in found]
