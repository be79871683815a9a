"""`HalfHitchContainer` with an engine: the image among containers, and beside this machine's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch import LocalTransactionState, Message, TransactionProducer
from halfhitch.embedded import EmbeddedKafka, EmbeddedRedis
from halfhitch.errors import Unauthorized
from halfhitch.testing.outside import SidecarFailed, create_topic
from harness.kafka import fresh_name, read_all, values, wait_until
from harness.pytest_runs import run_pytest
from harness.servers import KAFKA_IMAGE, REDIS_IMAGE, obstacle
from harness.snippets import fence_with, replaced

pytest.importorskip("testcontainers")

from halfhitch.testing.container import IMAGE, HalfHitchContainer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.containers, pytest.mark.kafka, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def image() -> str:
    """HALFHITCH_TEST_IMAGE, else this release's."""
    name = os.environ.get("HALFHITCH_TEST_IMAGE") or IMAGE
    reason = obstacle(name)
    if reason is not None:
        pytest.skip(f"{reason}: `make image` does, or name another with HALFHITCH_TEST_IMAGE")
    return name


def settings() -> dict[str, object]:
    return {"topics.prefix": f"{fresh_name('container')}."}


def page_s_program() -> Any:
    """On a topic of its own."""
    shown = fence_with("docs/testing.md", "halfhitch_sidecar.kill()")
    program: dict[str, Any] = {}
    shown = replaced(shown, "testing-page", fresh_name("testing-page"))
    exec(compile(shown, "docs/testing.md", "exec"), program)
    return program["test_through_a_real_kafka"]


def read(bootstrap: str, topic: str) -> list[bytes | None]:
    return values(read_all(bootstrap, topic))


def test_in_the_engine_s_network_it_has_a_token_and_serves(image: str) -> None:
    from harness.containers import KafkaContainer, RedisContainer

    topic = fresh_name("orders")
    with (
        KafkaContainer(KAFKA_IMAGE) as kafka,
        RedisContainer(REDIS_IMAGE) as redis,
        HalfHitchContainer(kafka.inside, redis.inside, image, settings=settings()) as sidecar,
        sidecar.producer("shop") as producer,
    ):
        create_topic(kafka.bootstrap, topic, 1)
        prepared = producer.prepare([Message(topic, b"book")])
        assert read(kafka.bootstrap, topic) == []
        assert producer.commit(prepared.handle, wait_visible=True).visible
        assert read(kafka.bootstrap, topic) == [b"book"]
        with pytest.raises(Unauthorized):
            TransactionProducer("shop", sidecar.url).prepare([Message(topic, b"theirs")])


def test_its_check_comes_to_a_producer_of_this_machine(image: str, kafka: Any) -> None:
    topic, asked = fresh_name("orders"), []

    def check(about: Any) -> LocalTransactionState:
        asked.append(about.transaction_id)
        return LocalTransactionState.COMMIT

    quick = settings() | {"checks.immunity_s": 1, "checks.interval_s": 1}
    with (
        HalfHitchContainer(kafka.bootstrap, image=image, settings=quick) as sidecar,
        sidecar.producer("shop", check=check) as producer,
    ):
        sidecar.create_topic(topic)
        prepared = producer.prepare([Message(topic, b"book")])
        wait_until(lambda: read(kafka.bootstrap, topic) == [b"book"], 60, what="a commit")
        assert asked[0] == prepared.transaction_id


def test_the_page_s_program_outlives_a_kill_of_the_container(image: str, kafka: Any) -> None:
    with HalfHitchContainer(kafka.bootstrap, image=image, settings=settings()) as sidecar:
        page_s_program()(sidecar)


def test_beside_servers_on_loopback_it_is_in_this_machine_s_network(image: str) -> None:
    """Their addresses mean nothing in any other."""
    with (
        EmbeddedKafka(short_lived=True) as kafka,
        EmbeddedRedis() as redis,
        HalfHitchContainer(kafka.bootstrap, redis.url, image, settings=settings()) as sidecar,
    ):
        assert sidecar.url.startswith("http://127.0.0.1:")
        assert sidecar.token is None
        page_s_program()(sidecar)


def test_the_fixture_is_a_container_where_pytest_is_told_so(image: str, tmp_path: Path) -> None:
    shown = fence_with("docs/testing.md", "halfhitch_sidecar.kill()")
    given = {name: os.environ[name] for name in ("DOCKER_HOST",) if name in os.environ}
    ended = run_pytest(
        tmp_path,
        shown + "    assert type(halfhitch_sidecar).__name__ == 'HalfHitchContainer'\n",
        *("--halfhitch-sidecar=container", f"--halfhitch-image={image}"),
        TESTCONTAINERS_RYUK_DISABLED="true",
        **given,
    )
    assert "1 passed" in ended.stdout, ended.stdout + ended.stderr


def test_a_setting_that_does_not_exist_is_said_by_the_sidecar_itself(image: str) -> None:
    wrong = HalfHitchContainer("127.0.0.1:1", image=image, settings={"http.prt": 1})
    with pytest.raises(SidecarFailed, match="did you mean"):
        wrong.start()
