"""MSK's IAM: every client gets the callback, and a token that cannot be signed is told."""

from __future__ import annotations

import sys
import threading
from types import ModuleType
from typing import Any

import pytest

from halfhitch.adapters.kafka.msk import token_callback
from halfhitch.adapters.native.carrier import native_options
from halfhitch.composition import engine_options
from halfhitch.config import load
from halfhitch.engine.kafka_clients import EngineClients
from halfhitch.errors import ConfigurationError
from halfhitch.wire.topics import InternalTopics
from halfhitch_cli.kafka import KafkaAdmin
from harness.oidc import unsecured_token

SETTINGS = {
    "kafka.bootstrap": "127.0.0.1:1",
    "kafka.msk_iam_region": "eu-central-1",
    "handle.key": "k" * 16,
}


class Signer:
    """In the place of AWS's package: signs as a Kafka for tests likes it."""

    def __init__(self) -> None:
        self.regions: list[str] = []
        self.trouble: Exception | None = None
        self.called = threading.Event()

    def generate_auth_token(self, region: str) -> tuple[str, int]:
        self.regions.append(region)
        self.called.set()
        if self.trouble is not None:
            raise self.trouble
        token, expires_at_s = unsecured_token()
        return token, int(expires_at_s * 1000)


@pytest.fixture
def signer(monkeypatch: pytest.MonkeyPatch) -> Signer:
    module: Any = ModuleType("aws_msk_iam_sasl_signer")
    module.MSKAuthTokenProvider = signer = Signer()
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", module)
    return signer


def test_a_token_is_given_with_its_end_in_seconds(signer: Signer) -> None:
    token, expires_at_s = token_callback("eu-central-1")("")
    assert token.count(".") == 2
    assert abs(expires_at_s - unsecured_token()[1]) < 60
    assert signer.regions == ["eu-central-1"]


def test_credentials_that_are_missing_are_told_with_the_remedy(
    signer: Signer, caplog: pytest.LogCaptureFixture
) -> None:
    signer.trouble = RuntimeError("Unable to locate credentials")
    ask = token_callback("eu-central-1")
    for _ in range(20):
        with pytest.raises(RuntimeError):
            ask("")
    assert len(caplog.messages) == 10
    assert "Unable to locate credentials" in caplog.messages[0]
    assert "AWS credentials of this machine" in caplog.messages[0]


def test_without_the_extra_the_start_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(ConfigurationError, match=r"halfhitch\[msk\]"):
        engine_options(load(SETTINGS))


@pytest.mark.parametrize(
    "make",
    ["admin", "consumer", "member", "record_producer", "owner_producer", "resume_producer", "cli"],
)
def test_every_client_asks_for_a_token(signer: Signer, make: str) -> None:
    settings = load(SETTINGS)
    clients = EngineClients(engine_options(settings), InternalTopics(""))
    signer.called.clear()
    made: Any
    if make == "cli":
        made = KafkaAdmin(settings, wait_s=1)
    elif make in ("owner_producer", "resume_producer"):
        made = getattr(clients, make)("tx")
    else:
        made = getattr(clients, make)()
    assert signer.called.wait(20)
    assert made is not None


def test_native_threads_cannot_call_back_and_are_not_used(signer: Signer) -> None:
    clients = EngineClients(engine_options(load(SETTINGS)), InternalTopics(""))
    assert native_options(clients.record_config()) is None


def test_what_msk_wants_is_chosen_unless_something_else_is_said(signer: Signer) -> None:
    chosen = load(SETTINGS).kafka.options
    assert dict(chosen) == {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    assert "oauth_cb" in chosen.for_client("consumer")
    assert "oauth_cb" not in repr(chosen)
