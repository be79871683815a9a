"""`HalfHitchContainer`: the image of Half Hitch by testcontainers, on a Kafka that is there.

Owns what the container is started with, and the sentences for an engine or an image that is not
there. Two networks are possible:

* The engine's own, where Kafka has an address that containers reach: its ports are published, and
  the sidecar, which others could reach then, asks for a token of this test alone.
* This machine's, where Kafka is known under a loopback address: only from there is it what it says.
  Doors are on loopback, on free ports.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import urlsplit

from docker.errors import DockerException, ImageNotFound
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from halfhitch import __version__
from halfhitch.client import TransactionProducer
from halfhitch.errors import ConfigurationError, HalfHitchError
from halfhitch.testing import outside
from halfhitch.testing.outside import SETTINGS_OF_TESTS, Doors, await_ready, doors_in

#: As the charts have it.
IMAGE: Final = f"halfhitch:{__version__}"
_HTTP_PORT: Final = 8340
_ADMIN_PORT: Final = 8341
_LOG_LINES: Final = 40
_LOOPBACK: Final = ("localhost", "127.", "[::1]", "::1")
_ENDED: Final = ("exited", "dead")


class NoContainer(HalfHitchError):
    """There is no engine, or not this image; the text has the cure."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a container is started with."""

    environment: Mapping[str, str]
    #: None: it asks for none.
    token: str | None
    #: It is in this machine's network.
    is_on_host: bool
    command: tuple[str, ...] = ("serve",)

    @property
    def ports(self) -> tuple[int, ...]:
        """To be published."""
        return () if self.is_on_host else (_HTTP_PORT, _ADMIN_PORT)

    @property
    def options(self) -> dict[str, Any]:
        """Of the engine."""
        return {"network": "host"} if self.is_on_host else {}


def plan(kafka: str, redis: str | None, settings: Mapping[str, object], token: str) -> Plan:
    """`kafka` and `redis`: as they are called from where the container is."""
    if "://" in kafka or not kafka.rpartition(":")[2].isdecimal():
        raise ConfigurationError(
            f"HalfHitchContainer: kafka is {kafka!r}: write it as host:port, such as 'kafka:9092'."
        )
    is_on_host = kafka.lower().startswith(_LOOPBACK)
    if not is_on_host and (urlsplit(redis or "").hostname or "").startswith(_LOOPBACK):
        raise ConfigurationError(
            f"HalfHitchContainer: redis is {redis!r}, and in a container that is the container: "
            f"give an address that is reached from there, as kafka's {kafka!r} is."
        )
    where: dict[str, object] = {
        "http.host": "127.0.0.1" if is_on_host else "0.0.0.0",  # noqa: S104 - the container's own
        "http.port": 0 if is_on_host else _HTTP_PORT,
        "admin.host": "127.0.0.1" if is_on_host else "0.0.0.0",  # noqa: S104 - likewise
        "admin.port": 0 if is_on_host else _ADMIN_PORT,
    }
    if not is_on_host:
        where |= {
            "auth.tokens": token,
            "http.encrypted_in_front": True,
            "admin.encrypted_in_front": True,
        }
    if redis is not None:
        where["redis.url"] = redis
    chosen = {**SETTINGS_OF_TESTS, "kafka.bootstrap": kafka, **where, **settings}
    environment = outside.environment_of(chosen)
    tokens = environment.get(outside.variable_of("auth.tokens"), "")
    return Plan(environment, tokens.partition(",")[0] or None, is_on_host)


class HalfHitchContainer(DockerContainer):  # type: ignore[misc] # its package may not be here
    """Use it in a `with` block: on entry the sidecar is ready, on exit its container is gone.

    `kafka` is host:port, and `redis` a URL, as they are called from the container: the alias and
    the inner port of a container in the same network (`network=...`), or an address of this
    machine. With a loopback address the container is in this machine's network, which is what it
    says with an engine on Linux; Docker Desktop has to be told (host networking). `settings` are
    those of a coordinator by their dotted names; `options` are testcontainers' own.
    """

    def __init__(
        self,
        kafka: str,
        redis: str | None = None,
        image: str = IMAGE,
        *,
        settings: Mapping[str, object] | None = None,
        **options: Any,
    ) -> None:
        self._plan = plan(kafka, redis, settings or {}, secrets.token_hex(16))
        self.bootstrap = kafka
        try:
            super().__init__(image, **options)
        except DockerException as error:
            raise NoContainer(
                f"No container engine answers ({error}). Start Docker, or Podman's socket "
                "service; if it listens elsewhere, say where with DOCKER_HOST."
            ) from None
        self.with_command(list(self._plan.command))
        self.with_exposed_ports(*self._plan.ports)
        self.env |= self._plan.environment
        self._kwargs |= self._plan.options

    def start(self) -> Self:
        """Returns when it is ready."""
        if not testcontainers_config.ryuk_disabled:
            self._fetch(
                testcontainers_config.ryuk_image,
                "testcontainers ends left-over containers with it: give the engine a registry "
                "that has it, or set TESTCONTAINERS_RYUK_DISABLED=true",
            )
        self._fetch(
            self.image,
            "build it (`make image` in Half Hitch's sources), or name yours: "
            "HalfHitchContainer(..., image='...')",
        )
        try:
            super().start()
            self._wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self, *arguments: Any, **options: Any) -> None:
        """As testcontainers does it, and once only."""
        super().stop(*arguments, **options)
        self._container = None

    def _fetch(self, image: str, cure: str) -> None:
        """The engine has it afterwards."""
        images = self.get_docker_client().client.images
        try:
            images.get(image)
        except ImageNotFound:
            try:
                images.pull(image)
            except DockerException as error:
                raise NoContainer(
                    f"The engine has no image {image} and cannot pull it ({error}): {cure}."
                ) from None

    def _wait_ready(self) -> None:
        await_ready(self._admin_address, self._has_ended, self.log_text)

    def _has_ended(self) -> bool:
        container = self.get_wrapped_container()
        container.reload()
        return container.status in _ENDED

    # -- where it is -------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Of the data door, as producers take it."""
        if not self._plan.is_on_host:
            return self._published(_HTTP_PORT)
        return self._served().address

    @property
    def address(self) -> str:
        """The same, as RunningSidecar calls it."""
        return self.url

    @property
    def admin_address(self) -> str:
        """Of the admin door: status, metrics, what the command line talks to."""
        if not self._plan.is_on_host:
            return self._published(_ADMIN_PORT)
        return f"http://127.0.0.1:{self._served().admin_port}"

    @property
    def token(self) -> str | None:
        """What both doors ask for, if they ask."""
        return self._plan.token

    def producer(self, group: str, **options: Any) -> TransactionProducer:
        """A producer that talks to this sidecar; `options` are those of TransactionProducer."""
        # Its messages go through the engine's network on this machine, or to the engine's host.
        asked = {"token": self.token, "encrypted_in_front": True} if self.token else {}
        return TransactionProducer(group, self.url, **{**asked, **options})

    def create_topic(self, topic: str, partition_count: int = 1) -> None:
        """A topic of the users, unless it is there. Kafka's address must lead there from here."""
        outside.create_topic(self.bootstrap, topic, partition_count)

    def log_text(self) -> str:
        """The end of what it has written."""
        said: bytes = self.get_wrapped_container().logs(tail=_LOG_LINES)
        return said.decode(errors="replace")

    def _admin_address(self) -> str | None:
        """None where nobody knows it, and where nobody listens any more."""
        if self._has_ended() or (self._plan.is_on_host and self._doors() is None):
            return None
        return self.admin_address

    def _published(self, port: int) -> str:
        host = self.get_container_host_ip()
        # That name may lead to ::1 as well, where the engine need not listen.
        host = "127.0.0.1" if host == "localhost" else host
        return f"http://{host}:{self.get_exposed_port(port)}"

    def _doors(self) -> Doors | None:
        return doors_in(self.get_wrapped_container().logs().decode(errors="replace"))

    def _served(self) -> Doors:
        found = self._doors()
        if found is None:
            raise ConfigurationError(
                "This HalfHitchContainer is not running: use it as "
                "`with HalfHitchContainer(kafka) as sidecar`."
            )
        return found

    # -- what tests do to it -----------------------------------------------------------------------

    def kill(self) -> None:
        """kill -9. What was acknowledged is in Kafka; `start_again` goes on with it."""
        container = self.get_wrapped_container()
        container.kill()
        container.wait()

    def start_again(self) -> None:
        """After `kill`; on other ports. Returns when it is ready."""
        if not self._has_ended():
            raise ConfigurationError("This HalfHitchContainer is running: kill it first.")
        self.get_wrapped_container().start()
        self._wait_ready()
