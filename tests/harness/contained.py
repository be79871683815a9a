"""The sidecar's image, run as a careful cluster runs it: `docker` is asked, nothing else."""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
from typing import TYPE_CHECKING, Any, Final, Self

import halfhitch
from harness.sidecar import Sidecar

if TYPE_CHECKING:
    from pathlib import Path

IMAGE: Final = f"halfhitch:{halfhitch.__version__}"
#: What the charts and the compose file ask for, and a user that no image knows.
RESTRICTED: Final = (
    *("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges"),
    *("--memory=512m", "--pids-limit=128", "--network=host"),
)
USER: Final = "48123:65532"
SOCKET: Final = "/run/halfhitch/data.sock"
_DOCKER_S: Final = 120


def docker(*arguments: str, code: int | None = 0) -> str:
    """Its standard output."""
    done = subprocess.run(
        ["docker", *arguments], capture_output=True, text=True, check=False, timeout=_DOCKER_S
    )
    assert code is None or done.returncode == code, f"{arguments}: {done.stdout}\n{done.stderr}"
    return done.stdout.strip()


def inspected(name: str) -> dict[str, Any]:
    """What the engine knows of an image, a container or a volume."""
    (found,) = json.loads(docker("inspect", name))
    assert isinstance(found, dict)
    return found


class ContainedSidecar(Sidecar):
    """`docker run`, which hands signals on and ends with the sidecar's code."""

    image = IMAGE

    def __init__(self, bootstrap: str, folder: Path, **settings: str) -> None:
        super().__init__(bootstrap, folder, **settings)
        self.name = f"halfhitch-{secrets.token_hex(4)}"
        self.volume = f"{self.name}-socket"
        self.environment |= {
            "HALFHITCH_HTTP_SOCKET": SOCKET,
            "HALFHITCH_ADMIN_PORT": str(free_port()),  # the image's HEALTHCHECK has to know it
        }

    @property
    def address(self) -> str:
        """For containers that have the volume."""
        return f"unix:{SOCKET}"

    def start(self) -> Self:
        self.make_volume()
        own = {k: v for k, v in self.environment.items() if k.startswith("HALFHITCH_")}
        settings = [f"--env={name}={value}" for name, value in own.items()]
        place = f"--volume={self.volume}:/run/halfhitch"
        command = ["docker", "run", f"--name={self.name}", *RESTRICTED, f"--user={USER}", place]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *settings, self.image],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return self

    def make_volume(self) -> None:
        """Memory that its group may write, as in the compose file."""
        user, group = USER.split(":")
        options = f"o=uid={user},gid={group},mode=0770,size=1m"
        docker(
            *("volume", "create", "--driver=local", "--opt=type=tmpfs", "--opt=device=tmpfs"),
            *(f"--opt={options}", self.volume),
        )

    def beside(self, program: str, *arguments: str) -> str:
        """What it prints: an application's container, another user of the same group."""
        return docker(
            *("run", "--rm", *RESTRICTED, "--user=51999:65532", "--entrypoint=python"),
            *(f"--volume={self.volume}:/run/halfhitch", f"--env=HALFHITCH_ADDRESS={self.address}"),
            *(self.image, "-c", program, *arguments),
        )

    @property
    def pid(self) -> int:
        """Of the sidecar itself, as this machine counts."""
        return int(inspected(self.name)["State"]["Pid"])

    def kill(self) -> None:
        assert self.process is not None
        docker("kill", self.name, code=None)
        self.process.wait(20)

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        docker("rm", "--force", self.name, code=None)
        docker("volume", "rm", "--force", self.volume, code=None)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port
