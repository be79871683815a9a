"""SIGTERM to the shipped sidecar: nothing new, ends as ever, what is decided is forwarded, gone."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch import Message, TransactionProducer
from halfhitch.errors import ShuttingDown
from harness.kafka import create_topics, fresh_name, read_all, wait_until
from harness.sidecar import Sidecar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.kafka

#: Longer than any of these tests: what is left undecided is waited for, unless a test says so.
LONG = {"HALFHITCH_CHECKS_IMMUNITY_S": "120", "HALFHITCH_DRAIN_S_MAX": "120"}
WAIT_S = 60


class Site:
    """One target, and sidecars over one installation."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap, self.topic = bootstrap, fresh_name("orders")
        self._folder, self._prefix = folder, fresh_name("s") + "."
        create_topics(bootstrap, {self.topic: 1})

    def sidecar(self, name: str = "a", **settings: str) -> Sidecar:
        folder = self._folder / name
        folder.mkdir()
        return Sidecar(
            self.bootstrap,
            folder,
            HALFHITCH_INSTANCE_ID=name,
            HALFHITCH_TOPICS_PREFIX=self._prefix,
            HALFHITCH_TOPICS_CREATE="true",
            **settings,
        )

    def values(self) -> list[bytes | None]:
        return [record.value for record in read_all(self.bootstrap, self.topic)]


@pytest.fixture
def site(kafka: Any, tmp_path: Path) -> Iterator[Site]:
    return Site(kafka.bootstrap, tmp_path)


def told_to_stop(sidecar: Sidecar) -> None:
    """And it has heard."""
    assert sidecar.process is not None
    sidecar.process.send_signal(signal.SIGTERM)
    wait_until(lambda: sidecar.ask("/readyz")[0] == 503, WAIT_S, what="a stop that has begun")


def ended(sidecar: Sidecar) -> int:
    assert sidecar.process is not None
    return sidecar.process.wait(WAIT_S)


def test_a_stop_refused_the_end_of_what_was_prepared_a_moment_before(site: Site) -> None:
    """Now it takes it, and is the last to forward it: nobody else is there."""
    with site.sidecar(**LONG) as sidecar:
        sidecar.wait_ready().wait_settled()
        with TransactionProducer("g", sidecar.address, deadline_s=WAIT_S) as producer:
            prepared = producer.prepare([Message(site.topic, b"one")])
            told_to_stop(sidecar)
            assert sidecar.ask("/readyz")[1]["reasons"] == ["this instance is stopping"]
            assert sidecar.ask("/livez")[0] < 300
            with (
                TransactionProducer("g", sidecar.address, deadline_s=0.3) as newcomer,
                pytest.raises(ShuttingDown) as refused,
            ):
                newcomer.prepare([Message(site.topic, b"two")])
            assert refused.value.retryable
            assert refused.value.code == "shutting_down"
            producer.commit(prepared.handle)
        assert ended(sidecar) == 0
        assert site.values() == [b"one"]
        assert "action=handing_over" in sidecar.log.read_text()


def test_a_second_sigterm_ends_the_waiting_and_not_the_order(site: Site) -> None:
    with site.sidecar(**LONG) as sidecar:
        sidecar.wait_ready().wait_settled()
        with TransactionProducer("g", sidecar.address, deadline_s=WAIT_S) as producer:
            prepared = producer.prepare([Message(site.topic, b"one")])
            told_to_stop(sidecar)
            told_to_stop(sidecar)
            assert ended(sidecar) == 0
            log = sidecar.log.read_text()
            assert "action=hurrying" in log
            assert "action=handing_over" in log
            sidecar.start().wait_ready()
            producer.commit(prepared.handle)  # as at any instance
            wait_until(lambda: site.values() == [b"one"], WAIT_S, what="the message")


def test_a_stop_waits_for_an_end_that_never_comes_as_long_as_it_may(site: Site) -> None:
    with site.sidecar(**{**LONG, "HALFHITCH_DRAIN_S_MAX": "1"}) as sidecar:
        sidecar.wait_ready().wait_settled()
        with TransactionProducer("g", sidecar.address, deadline_s=WAIT_S) as producer:
            producer.prepare([Message(site.topic, b"one")])
        began_s = time.monotonic()
        told_to_stop(sidecar)
        assert ended(sidecar) == 0
        assert time.monotonic() - began_s > 1


def test_another_instance_takes_over_what_a_stop_hands_over(site: Site) -> None:
    """How long it takes is measured by chaos, for it says much about the machine, too."""
    with ExitStack() as stack:
        # One after the other: the half partition is the first one's.
        first = stack.enter_context(site.sidecar("a")).wait_ready()
        first.wait_settled()
        second = stack.enter_context(site.sidecar("b")).wait_ready()
        with TransactionProducer("g", second.address, deadline_s=WAIT_S) as producer:
            prepared = producer.prepare([Message(site.topic, b"one")])
            assert first.terminate(WAIT_S) == 0
            second.wait_settled()
            producer.commit(prepared.handle, wait_visible=True)
        assert site.values() == [b"one"]
