"""What the routes for probes and people answer."""

import json

import pytest

from halfhitch.service.api import ProducersState
from harness.admin_doors import SETTINGS, FakeSystem, opened

NEW, OLD = "application/openmetrics-text", "text/plain;version=0.0.4"


async def test_probes_answer_204_or_503_with_the_reasons() -> None:
    system, dead = FakeSystem(), list[str]()
    async with opened(system, death_reasons=lambda: dead) as ask:
        assert (await ask("/livez"))[0] == 204
        status, _, body = await ask("/readyz")
        assert (status, body) == (204, b"")

        system.reasons = ["Kafka does not answer"]
        status, headers, body = await ask("/readyz")
        assert status == 503
        assert headers["retry-after"] == "1"
        assert json.loads(body) == {"ready": False, "reasons": ["Kafka does not answer"]}
        assert (await ask("/livez"))[0] == 204

        dead.append("the worker of partition 3 has died")
        status, _, body = await ask("/livez")
        assert status == 503
        assert json.loads(body) == {
            "alive": False,
            "reasons": ["the worker of partition 3 has died"],
        }


async def test_status_partitions_config_and_metrics() -> None:
    system = FakeSystem()
    async with opened(system) as ask:
        status, headers, body = await ask("/v1/status")
        answer = json.loads(body)
        assert status == 200
        assert headers["content-type"] == "application/json"
        assert answer["ready"] is True
        assert answer["reasons"] == []
        assert answer["info"]["instance"] == "shop-1"
        assert answer["partitions"] == json.loads((await ask("/v1/partitions"))[2])["partitions"]
        assert answer["partitions"][0]["phase"] == "working"
        assert answer["partitions"][0]["half_watermark"] == 10
        assert json.loads((await ask("/v1/config"))[2]) == {"settings": SETTINGS}
        status, headers, body = await ask("/metrics")
        assert status == 200
        assert headers["content-type"].startswith("text/plain; version=")
        assert b'halfhitch_half_messages{partition="2"} 1.0' in body
        system.reasons = ["draining"]
        assert json.loads((await ask("/v1/status"))[2])["ready"] is False
        assert (await ask("/v1/status", "HEAD"))[2] == b""


async def test_producers_are_listed_by_group() -> None:
    class Busy(FakeSystem):
        def producers(self) -> list[ProducersState]:
            return [ProducersState("shop", ("vm-1",), 1, (), 0, 2, "closed", 3)]

    async with opened(Busy()) as ask:
        status, _, body = await ask("/v1/producers")
    assert status == 200
    assert json.loads(body) == {
        "groups": [
            {
                "producer_group": "shop", "links": ["vm-1"], "link_count": 1, "elsewhere": [],
                "waiting_count": 0, "outstanding_count": 2, "breaker": "closed",
                "undecided_count": 3,
            }
        ]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain", False),
        (NEW, True),
        # Prometheus 2.42, and 3.
        (f"{NEW};version=1.0.0,{NEW};version=0.0.1;q=0.75,{OLD};q=0.5,*/*;q=0.1", True),
        (f"{NEW};version=1.0.0;escaping=allow-utf-8;q=0.5,{OLD};q=0.4,*/*;q=0.1", True),
        # `scrape_protocols` in another order.
        (f"{OLD};q=0.6, {NEW};version=1.0.0;q=0.5", False),
        (f"{NEW}; version=0.0.1", False),
        (f"{NEW};q=0", False),
        (f"{NEW};q=much", False),
        (";;,,q=", False),
    ],
)
async def test_a_scraper_gets_openmetrics_where_it_likes_it_no_less(
    accept: str, wanted: bool
) -> None:
    async with opened(FakeSystem()) as ask:
        status, headers, body = await ask("/metrics", Accept=accept)
    assert status == 200
    kind = "application/openmetrics-text; version=1.0.0" if wanted else "text/plain; version="
    assert headers["content-type"].startswith(kind)
    assert body.endswith(b"# EOF\n") is wanted
    assert b'halfhitch_half_messages{partition="2"} 1.0' in body
