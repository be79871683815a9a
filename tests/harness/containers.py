"""Kafka and Redis in containers, for tests that want to know no more than where they are.

The images are those of tests/containers/build.py. Owns how each is started and found ready.
"""

from __future__ import annotations

import atexit
import gc
import time
import warnings
from typing import TYPE_CHECKING, Any, Final, Self

from docker.errors import DockerException, ImageNotFound
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient

from halfhitch.embedded.kafka_client import MetadataClient, coordinators_work, port_is_open

if TYPE_CHECKING:
    from collections.abc import Callable

_START_S: Final = 90.0
_LOOK_S: Final = 0.05
#: Listeners of the Kafka container: for this machine, and for containers.
OUTSIDE_PORT: Final = 9092
INSIDE_PORT: Final = 9094
NO_ENGINE: Final = (
    "no container engine answers: start Docker, or Podman's socket, or say where it is with "
    "DOCKER_HOST"
)
#: Where its image waits for the addresses that clients are to use.
ADVERTISED: Final = "/tmp/advertised"


def obstacle(image: str) -> str | None:
    """Why no container of this image can be started here; None if one can. Nothing is pulled."""
    client = client_or_none()
    if client is None:
        return NO_ENGINE
    try:
        client.images.get(image)
    except ImageNotFound:
        return f"the engine has no image {image}"
    finally:
        client.close()
    return None


def client_or_none() -> Any:
    """The engine's; None if none answers."""
    with warnings.catch_warnings():
        # Of a client that finds nobody, the socket is left to the garbage collector. Here, so that
        # it does not turn up as a warning in somebody else's test.
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            return DockerClient().client
        except DockerException:
            pass
        gc.collect()
    return None


class OwnContainer(DockerContainer):
    """Ends with the process that started it, if not before."""

    def start(self) -> Self:
        # Testcontainers' own way is one more container, of an image that may not be to be had.
        testcontainers_config.ryuk_disabled = True
        atexit.register(self._end)
        try:
            super().start()
            self.when_started()
        except BaseException:
            self._end()
            raise
        return self

    def when_started(self) -> None:
        """Returns when it can be used."""

    def _end(self) -> None:
        atexit.unregister(self._end)
        if self._container is not None:
            self.stop()
            self._container = None

    def __exit__(self, *_: object) -> None:
        self._end()

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """With the end of its log when it has ended, or takes too long."""
        deadline_s = time.monotonic() + _START_S
        wrapped: Any = self.get_wrapped_container()
        while not condition():
            wrapped.reload()
            if wrapped.status == "exited" or time.monotonic() > deadline_s:
                said = wrapped.logs(tail=40).decode(errors="replace")
                raise AssertionError(f"{self.image}: {what} did not come about\n{said}")
            time.sleep(_LOOK_S)

    def address_of(self, port: int) -> tuple[str, int]:
        """Where this machine reaches it."""
        host = self.get_container_host_ip()
        # The name may lead to ::1 as well, where the engine need not listen.
        return "127.0.0.1" if host == "localhost" else host, self.get_exposed_port(port)

    @property
    def own_ip(self) -> str:
        """Where other containers reach it."""
        found: str = self.get_docker_client().bridge_ip(self.get_container_id())
        return found


class KafkaContainer(OwnContainer):
    """One broker. Clients elsewhere than this machine take `inside`."""

    def __init__(self, image: str) -> None:
        super().__init__(image)
        self.with_exposed_ports(OUTSIDE_PORT)
        self.bootstrap = ""
        #: For containers of the same network.
        self.inside = ""

    def when_started(self) -> None:
        host, port = self.address_of(OUTSIDE_PORT)
        self.bootstrap, self.inside = f"{host}:{port}", f"{self.own_ip}:{INSIDE_PORT}"
        # Which port of this machine leads to it is known only now.
        addresses = f"PLAINTEXT://{self.bootstrap},INSIDE://{self.inside}\n"
        self.copy_into_container(addresses.encode(), ADVERTISED)
        # The port first: librdkafka backs off when it is refused.
        self.until(lambda: port_is_open(port, host), f"port {port}")
        client = MetadataClient(self.bootstrap)
        self.until(lambda: client.known_broker_ids() == {1}, "a registered broker")
        self.until(lambda: coordinators_work(port, host), "coordinators")


class RedisContainer(OwnContainer):
    """One redis-server that keeps nothing."""

    def __init__(self, image: str) -> None:
        super().__init__(image)
        self.with_exposed_ports(6379)
        self.url = ""
        #: For containers of the same network.
        self.inside = ""

    def when_started(self) -> None:
        host, port = self.address_of(6379)
        self.url, self.inside = f"redis://{host}:{port}/0", f"redis://{self.own_ip}:6379/0"
        from redis import Redis
        from redis.exceptions import RedisError

        def answers() -> bool:
            try:
                with Redis.from_url(self.url) as client:
                    return bool(client.ping())
            except RedisError:
                return False

        self.until(answers, "an answer")
