"""A real Kafka that takes bearer tokens: by client credentials, and by the callback for MSK.

Its validator takes unsecured tokens, as only tests may; the clients do not look into them.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from chaos.kit.proxy import KafkaProxy
from halfhitch.composition import engine_options
from halfhitch.config import load
from halfhitch.core.model import Resolution
from halfhitch.embedded import EmbeddedKafka
from halfhitch_cli.kafka import KafkaAdmin
from harness.check_site import CheckSite
from harness.check_witness import UNDECIDED
from harness.oidc import CLIENT_ID, CLIENT_SECRET, token_endpoint, unsecured_token

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.kafka

PROPERTIES = {
    "listener.security.protocol.map": (
        "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXY:SASL_PLAINTEXT"
    ),
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "listener.name.proxy.oauthbearer.sasl.jaas.config": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
    ),
}


@pytest.fixture(scope="module")
def asking() -> Iterator[EmbeddedKafka]:
    """Asks for tokens whoever comes through the proxy."""
    with EmbeddedKafka(short_lived=True, proxy_listener=True, properties=PROPERTIES) as cluster:
        (route,) = cluster.proxies
        with KafkaProxy(route.listen_port, route.target_port):
            yield cluster


async def lives(asking: EmbeddedKafka, given: dict[str, object]) -> None:
    """An engine with these settings takes a transaction and makes it visible."""
    settings = load({"kafka.bootstrap": asking.proxy_bootstrap, "handle.key": "k" * 16, **given})
    with KafkaAdmin(settings, wait_s=30) as kafka:
        assert kafka.reach().cluster_id
    site = CheckSite(asking.bootstrap)
    site.create_targets()
    options = engine_options(settings)
    async with site.engine(
        bootstrap=asking.proxy_bootstrap,
        producer_options=options.producer_options,
        consumer_options=options.consumer_options,
        admin_options=options.admin_options,
    ) as engine:
        site.link(engine)
        prepared = await site.orphan(engine, "paid", UNDECIDED)
        await site.end(engine, prepared.handle, Resolution.COMMIT, wait_visible=True)
    assert b"order paid" in {record.value for record in site.read(site.orders)}


async def test_with_client_credentials_a_transaction_becomes_visible(
    asking: EmbeddedKafka, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(CLIENT_SECRET + "\n")
    with token_endpoint() as endpoint:
        await lives(
            asking,
            {"kafka.options": endpoint.options(), "kafka.oauth_client_secret_file": secret},
        )
        assert {who for who, _ in endpoint.asked} == {f"{CLIENT_ID}:{CLIENT_SECRET}"}
        assert all("grant_type=client_credentials" in form for _, form in endpoint.asked)


async def test_with_the_callback_for_msk_a_transaction_becomes_visible(
    asking: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    regions: list[str] = []

    class Signer:
        def generate_auth_token(self, region: str) -> tuple[str, int]:
            regions.append(region)
            token, expires_at_s = unsecured_token(valid_s=5)  # renewed while it runs
            return token, int(expires_at_s * 1000)

    module: Any = ModuleType("aws_msk_iam_sasl_signer")
    module.MSKAuthTokenProvider = Signer()
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", module)
    await lives(
        asking,
        {
            "kafka.options": "security.protocol=SASL_PLAINTEXT",
            "kafka.msk_iam_region": "eu-central-1",
        },
    )
    assert len(regions) > 6
    assert set(regions) == {"eu-central-1"}
