"""Fixtures every test may use: a clean environment, a printed seed, one server of each kind.

The servers are real and started once for the run, on first use; tests keep apart by fresh topic
names and key prefixes. Which Kafka and which Redis that are says harness/servers.py.
HALFHITCH_TEST_SEED repeats a run.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import zlib
from typing import TYPE_CHECKING

import pytest

import halfhitch
from harness import servers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.mariadb import EmbeddedMariaDb
    from harness.pgbouncer import EmbeddedPgBouncer
    from harness.postgres import EmbeddedPostgres
    from harness.servers import KafkaAddress, RedisAddress

pytest_plugins = ["harness.lanes", "harness.hypothesis_profiles", "harness.native"]

_KEPT_VARIABLES = {
    *("HALFHITCH_CACHE_DIR", "HALFHITCH_TEST_SEED"),
    *(servers.KAFKA_VARIABLE, servers.REDIS_VARIABLE, servers.WISH_VARIABLE),
}
_SEED = int(os.environ.get("HALFHITCH_TEST_SEED") or random.SystemRandom().randrange(2**32))


def pytest_configure() -> None:
    # A shell without job control starts what runs in the background with these ignored, and it is
    # inherited by every process a test starts: none of them could be interrupted.
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--compiled", action="store_true", help="of the compiled hot path (make test-compiled)"
    )
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write scenarios and rendered charts anew; the difference is for you to judge",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    is_wanted = config.getoption("--compiled")
    if is_wanted is not halfhitch.is_compiled():
        raise pytest.UsageError(
            "the hot path is not the compiled one: run `make compiled`, then `make test-compiled`"
            if is_wanted
            else "the hot path is the compiled one, and that was not asked for with --compiled"
        )
    for item in items:
        marker = item.get_closest_marker("interpreted")
        if is_wanted and marker is not None:
            item.add_marker(pytest.mark.skip(reason=marker.args[0]))


def pytest_collection_finish() -> None:
    # Thousands of tests, their modules and what these import stay until the end: half a second for
    # each look of the collector at all that is there, which tests ask for by the hundred.
    gc.collect()
    gc.freeze()


def pytest_report_header() -> str:
    return f"seed: HALFHITCH_TEST_SEED={_SEED}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for what, place in servers.told.items():
        terminalreporter.write_line(f"{what}: {place}")


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own HALFHITCH_* settings must not decide whether a test passes."""
    for name in list(os.environ):
        if name.startswith("HALFHITCH_") and name not in _KEPT_VARIABLES:
            monkeypatch.delenv(name)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Randomness that depends on the run's seed and the test alone, not on the order of tests."""
    print(f"HALFHITCH_TEST_SEED={_SEED}")
    return random.Random(_SEED ^ zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaAddress]:
    """One broker for the whole run; topics are never created by accident. Use `.bootstrap`."""
    with servers.kafka_server() as server:
        yield server


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisAddress]:
    """One Redis for the whole run. Use `.url`."""
    with servers.redis_server() as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """One PostgreSQL for the whole run. Who stops it starts it again."""
    from harness.postgres import EmbeddedPostgres

    with EmbeddedPostgres() as server:
        yield server


@pytest.fixture(scope="session")
def pgbouncer(postgres: EmbeddedPostgres) -> Iterator[EmbeddedPgBouncer]:
    """One pgbouncer in transaction mode, before that PostgreSQL."""
    from harness.pgbouncer import EmbeddedPgBouncer

    with EmbeddedPgBouncer(postgres) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[EmbeddedMariaDb]:
    """One MariaDB for the whole run. Who stops it starts it again."""
    from harness.mariadb import EmbeddedMariaDb

    with EmbeddedMariaDb() as server:
        yield server
