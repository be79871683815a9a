"""What the container is started with, and what is said when that cannot be, without an engine.

tests/integration/test_testing_container.py starts real ones.
"""

from __future__ import annotations

import gc
import warnings
from types import SimpleNamespace

import pytest

from halfhitch.errors import ConfigurationError
from harness.admin_answers import readyz

pytest.importorskip("testcontainers")

from docker.errors import APIError, ImageNotFound
from testcontainers.core.config import ConnectionMode, testcontainers_config

from halfhitch.testing import HalfHitchContainer
from halfhitch.testing.container import IMAGE, NoContainer, plan
from halfhitch.testing.outside import SidecarFailed

TOKEN = "0123456789abcdef"
#: No engine is asked which version it speaks.
UNASKED = {"docker_client_kw": {"version": "1.41"}}
SERVING = b"serving on http://127.0.0.1:8888, admin on port %d\n"


class FakeEngine:
    """What testcontainers wants of an engine, and the one container it makes."""

    def __init__(self, log=b"", *, status="running", images=(IMAGE,), admin_port=0):
        self.log, self.status, self.known, self.admin_port = log, status, images, admin_port
        self.id = self.short_id = "f00d"
        self.created, self.did = None, []
        self.client = SimpleNamespace(images=self, close=lambda: None)

    # -- of images
    def get(self, image):
        if image not in self.known:
            raise ImageNotFound(image)

    def pull(self, image):
        raise APIError(f"{image}: no such host")

    # -- of testcontainers' client
    def create(self, image, **options):
        self.created = {"image": image, **options}
        return self

    def get_connection_mode(self):
        return ConnectionMode.docker_host

    def host(self):
        return "localhost"

    def port(self, container_id, port):
        return str(self.admin_port if port == 8341 else 40_000)

    # -- of the container
    def start(self, container=None):
        self.status = self.status if container else "running"
        self.did.append("start")

    def reload(self):
        pass

    def logs(self, **options):
        return self.log

    def kill(self):
        self.did.append("kill")
        self.status = "exited"

    def wait(self):
        self.did.append("wait")

    def remove(self, **options):
        self.did.append("remove")


@pytest.fixture(autouse=True)
def _no_reaper(monkeypatch):
    monkeypatch.setattr(testcontainers_config, "ryuk_disabled", True)


def made(engine, *arguments, **options):
    container = HalfHitchContainer(*arguments, **options, **UNASKED)
    container._docker = engine
    return container


# -- the plan ---------------------------------------------------------------------------------


def test_beside_a_kafka_in_the_engine_s_network_it_is_published_and_locked():
    it = plan("kafka:9092", "redis://redis:6379/0", {}, TOKEN)
    assert (it.command, it.ports, it.options, it.token) == (("serve",), (8340, 8341), {}, TOKEN)
    told = {name.removeprefix("HALFHITCH_"): value for name, value in it.environment.items()}
    assert told["KAFKA_BOOTSTRAP"] == "kafka:9092"
    assert told["REDIS_URL"] == "redis://redis:6379/0"
    assert (told["HTTP_HOST"], told["HTTP_PORT"]) == ("0.0.0.0", "8340")
    assert (told["ADMIN_HOST"], told["ADMIN_PORT"]) == ("0.0.0.0", "8341")
    assert told["AUTH_TOKENS"] == TOKEN
    assert told["TOPICS_REPLICATION_FACTOR"] == "1"


@pytest.mark.parametrize("kafka", ["127.0.0.1:9092", "localhost:9092", "LOCALHOST:1", "[::1]:9092"])
def test_a_kafka_on_loopback_is_reached_from_this_machine_s_network_alone(kafka):
    it = plan(kafka, "redis://127.0.0.1:6379/0", {}, TOKEN)
    assert (it.ports, it.options, it.token) == ((), {"network": "host"}, None)
    assert it.environment["HALFHITCH_HTTP_HOST"] == "127.0.0.1"
    assert it.environment["HALFHITCH_HTTP_PORT"] == it.environment["HALFHITCH_ADMIN_PORT"] == "0"
    assert "HALFHITCH_AUTH_TOKENS" not in it.environment


def test_settings_have_the_last_word_and_a_token_among_them_is_the_producers():
    settings = {"topics.partitions": 4, "auth.tokens": ["a" * 16, "b" * 16], "checks.count_max": 3}
    it = plan("kafka:9092", None, settings, TOKEN)
    assert it.environment["HALFHITCH_TOPICS_PARTITIONS"] == "4"
    assert it.environment["HALFHITCH_CHECKS_COUNT_MAX"] == "3"
    assert it.token == "a" * 16
    assert "HALFHITCH_REDIS_URL" not in it.environment


@pytest.mark.parametrize("kafka", ["kafka", "http://kafka:9092", "kafka:port", ""])
def test_a_kafka_that_is_no_address_is_refused(kafka):
    with pytest.raises(ConfigurationError, match="host:port"):
        plan(kafka, None, {}, TOKEN)


def test_a_redis_that_would_be_the_container_itself_is_refused():
    with pytest.raises(ConfigurationError, match="in a container that is the container"):
        plan("kafka:9092", "redis://localhost:6379/0", {}, TOKEN)


# -- the container ----------------------------------------------------------------------------


def test_the_engine_is_given_the_plan():
    with readyz(503, 204) as door:
        engine = FakeEngine(admin_port=door.port)
        with made(engine, "kafka:9092", settings={"checks.count_max": 3}) as sidecar:
            assert sidecar.url == sidecar.address == "http://127.0.0.1:40000"
            assert sidecar.admin_address == door.address
            assert len(sidecar.token) == 32
            with sidecar.producer("shop", answers_checks=False) as producer:
                assert (producer.group, producer.address) == ("shop", sidecar.url)
    assert engine.created["image"] == IMAGE
    assert engine.created["command"] == ["serve"]
    assert engine.created["ports"] == {"8340": None, "8341": None}
    assert engine.created["environment"]["HALFHITCH_CHECKS_COUNT_MAX"] == "3"
    assert engine.did == ["start", "remove"]


def test_on_this_machine_s_network_its_log_says_where_it_is():
    with readyz(204) as door:
        engine = FakeEngine(b"starting\n" + SERVING % door.port, images=("mine:1",))
        with made(engine, "127.0.0.1:9092", image="mine:1") as sidecar:
            assert sidecar.url == "http://127.0.0.1:8888"
            assert sidecar.token is None
            assert sidecar.bootstrap == "127.0.0.1:9092"
    assert engine.created["network"] == "host"


def test_it_is_killed_and_started_again():
    with readyz(204) as door:
        engine = FakeEngine(SERVING % door.port)
        with made(engine, "127.0.0.1:9092") as sidecar:
            with pytest.raises(ConfigurationError, match="kill it first"):
                sidecar.start_again()
            sidecar.kill()
            sidecar.start_again()
            assert engine.did == ["start", "kill", "wait", "start"]


def test_one_that_does_not_start_shows_why_and_leaves_nothing():
    engine = FakeEngine(b"checks.count_max: at least 1\n", status="exited")
    with pytest.raises(SidecarFailed, match=r"has ended:\nchecks\.count_max"):
        made(engine, "kafka:9092", settings={"checks.count_max": 0}).start()
    assert engine.did == ["start", "remove"]


# -- what is missing --------------------------------------------------------------------------


def test_an_engine_that_is_not_there_is_one_sentence_with_the_cure(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        with pytest.raises(NoContainer) as refused:
            HalfHitchContainer("kafka:9092")
        told = str(refused.value)
        del refused
        gc.collect()  # the library's client leaves its socket to this
    assert "No container engine answers" in told
    assert "say where with DOCKER_HOST" in told


def test_an_image_that_is_not_there_is_one_sentence_with_the_cure():
    with pytest.raises(NoContainer) as refused:
        made(FakeEngine(images=()), "kafka:9092").start()
    assert f"no image {IMAGE} and cannot pull it" in str(refused.value)
    assert "`make image`" in str(refused.value)


def test_testcontainers_own_image_that_is_not_there_is_told_apart(monkeypatch):
    monkeypatch.setattr(testcontainers_config, "ryuk_disabled", False)
    with pytest.raises(NoContainer, match="TESTCONTAINERS_RYUK_DISABLED=true"):
        made(FakeEngine(), "kafka:9092").start()
