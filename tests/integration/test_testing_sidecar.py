"""`halfhitch.testing`'s real sidecar: the program of docs/testing.md, and what tests do to it."""

from __future__ import annotations

import uuid

import pytest

from halfhitch.client import TransactionProducer
from halfhitch.client.values import Message
from halfhitch.errors import ConfigurationError
from halfhitch.testing import RunningSidecar
from harness.snippets import fence_with, replaced


@pytest.fixture(scope="module")
def sidecar(kafka):
    settings = {"topics.prefix": f"testing-{uuid.uuid4().hex[:8]}.", "checks.count_max": 3}
    with RunningSidecar(kafka.bootstrap, settings) as running:
        yield running


def test_the_page_s_program_outlives_a_kill_of_the_sidecar(sidecar):
    shown = fence_with("docs/testing.md", "halfhitch_sidecar.kill()")
    shown = replaced(shown, "testing-page", f"testing-page-{uuid.uuid4().hex[:8]}")
    program: dict[str, object] = {}
    exec(compile(shown, "docs/testing.md", "exec"), program)
    program["test_through_a_real_kafka"](sidecar)


def test_it_is_reached_over_its_socket_too_and_a_topic_may_be_there(sidecar):
    sidecar.create_topic("testing-socket", 2)
    sidecar.create_topic("testing-socket", 2)
    with TransactionProducer("shop", sidecar.socket_address, answers_checks=False) as producer:
        prepared = producer.prepare([Message("testing-socket", b"book")])
        assert producer.rollback(prepared.handle).state == "rolled_back"


def test_one_that_runs_is_not_started_twice(sidecar):
    with pytest.raises(ConfigurationError, match="kill it first"):
        sidecar.start_again()


def test_its_admin_door_is_told(sidecar):
    assert sidecar.admin_address.startswith("http://127.0.0.1:")
