"""Which Kafka and which Redis the tests run on: the first rung of a ladder that bears.

1. Given: an address in the environment (HALFHITCH_TEST_KAFKA, HALFHITCH_TEST_REDIS).
2. In a container, by testcontainers: an engine answers, and has the image that `make
   test-containers` builds.
3. Embedded: `halfhitch.embedded` starts one on this machine.

HALFHITCH_TEST_CONTAINERS is `yes` (not the second rung is an error), `no` (it is left out) or
unset. Whoever stands on any rung knows where its server is and nothing more: tests that stop, hurt
or fill a server start an embedded one of their own.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Final

from halfhitch.embedded import EmbeddedKafka, EmbeddedRedis
from halfhitch.embedded.jars import KAFKA_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

KAFKA_VARIABLE: Final = "HALFHITCH_TEST_KAFKA"
REDIS_VARIABLE: Final = "HALFHITCH_TEST_REDIS"
WISH_VARIABLE: Final = "HALFHITCH_TEST_CONTAINERS"
#: As tests/containers/build.py makes them.
KAFKA_IMAGE: Final = f"halfhitch-test-kafka:{KAFKA_VERSION}"
REDIS_IMAGE: Final = "halfhitch-test-redis:6.2"

#: What this run's tests were given, one line a server: told at its end.
told: Final[dict[str, str]] = {}


class Rung(StrEnum):
    """Of the ladder, from the top."""

    GIVEN = "given"
    CONTAINER = "in a container"
    EMBEDDED = "embedded"


class LadderError(Exception):
    """What was asked for cannot be had; the text has the cure."""


@dataclass(frozen=True, slots=True)
class KafkaAddress:
    """A Kafka, and all that a test may ask of it."""

    bootstrap: str


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """A Redis, and all that a test may ask of it."""

    url: str


def rung(given: str | None, wish: str | None, obstacle: Callable[[], str | None]) -> Rung:
    """Where to stand. `obstacle` says why there can be no container; None: there can.

    It is asked only where the answer matters, for it takes the engine a moment.
    """
    if wish not in (None, "", "yes", "no"):
        raise LadderError(f"{WISH_VARIABLE} is {wish!r}: say yes or no, or leave it unset")
    if given:
        return Rung.GIVEN
    if wish == "no":
        return Rung.EMBEDDED
    reason = obstacle()
    if reason is None:
        return Rung.CONTAINER
    if wish == "yes":
        raise LadderError(f"{WISH_VARIABLE}=yes, but {reason}: `make test-containers` sees to both")
    return Rung.EMBEDDED


def obstacle(image: str) -> str | None:
    """Why no container of this image can be started here; None if one can."""
    try:
        containers = import_module("harness.containers")
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        return f"{package} is not installed: `make setup` installs it"
    reason: str | None = containers.obstacle(image)
    return reason


@contextmanager
def kafka_server(
    environment: Mapping[str, str] = os.environ, *, short_lived: bool = True
) -> Iterator[KafkaAddress]:
    """One broker; topics are never created by accident."""
    with ExitStack() as stack:

        def contained() -> str:
            from harness.containers import KafkaContainer

            return stack.enter_context(KafkaContainer(KAFKA_IMAGE)).bootstrap

        def embedded() -> str:
            return stack.enter_context(EmbeddedKafka(short_lived=short_lived)).bootstrap

        yield KafkaAddress(
            _standing("Kafka", environment, KAFKA_VARIABLE, KAFKA_IMAGE, contained, embedded)
        )


@contextmanager
def redis_server(environment: Mapping[str, str] = os.environ) -> Iterator[RedisAddress]:
    """One server. A given one may hold what is not ours: nobody empties it."""
    with ExitStack() as stack:

        def contained() -> str:
            from harness.containers import RedisContainer

            return stack.enter_context(RedisContainer(REDIS_IMAGE)).url

        def embedded() -> str:
            return stack.enter_context(EmbeddedRedis()).url

        yield RedisAddress(
            _standing("Redis", environment, REDIS_VARIABLE, REDIS_IMAGE, contained, embedded)
        )


def _standing(
    what: str,
    environment: Mapping[str, str],
    variable: str,
    image: str,
    contained: Callable[[], str],
    embedded: Callable[[], str],
) -> str:
    """The address on the first rung that bears."""
    given = environment.get(variable) or ""
    found = rung(given, environment.get(WISH_VARIABLE), lambda: obstacle(image))
    start = {Rung.GIVEN: lambda: given, Rung.CONTAINER: contained, Rung.EMBEDDED: embedded}[found]
    address = start()
    told[what] = f"{found}, {address}"
    return address
