"""One forged record stops a half partition until an operator says that it is to be passed over."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from confluent_kafka import Producer

from halfhitch.core.model import Resolution
from halfhitch.service.operators.stories import StoryQuery
from halfhitch_cli.app import main
from harness.engines import PARTITION_COUNT, Site, until

pytestmark = pytest.mark.kafka

FORGED = {
    "half": [
        ("HALFHITCH", b"2;0;1;x"), ("UNIQ_KEY", b"T"), ("PGROUP", b"g"),
        ("REAL_TOPIC", b"orders"), ("TRAN_MSG", b"true"),
    ],
    "op": [("TAGS", b"c"), ("HALFHITCH", b"2[]")],
}  # fmt: skip


def forge(site: Site, topic: str, headers: Any) -> int:
    """Written by somebody who may write to the topic; its offset in half partition 0."""
    told: list[int] = []
    producer = Producer({"bootstrap.servers": site.bootstrap})
    producer.produce(
        topic, b"0,", headers=headers, partition=0, on_delivery=lambda _, m: told.append(m.offset())
    )
    assert producer.flush(20) == 0
    return told[0]


@pytest.mark.parametrize("log", ["half", "op"])
async def test_a_forged_record_stops_a_half_partition_no_longer_than_an_operator_wants(
    kafka: Any,
    log: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    site = Site(kafka.bootstrap)
    site.create_targets()
    monkeypatch.setenv("HALFHITCH_KAFKA_BOOTSTRAP", site.bootstrap)
    monkeypatch.setenv("HALFHITCH_TOPICS_PREFIX", site.prefix)
    topic = site.names.half if log == "half" else site.names.op

    async def skip(offset: int, *more: str) -> tuple[int, str]:
        arguments = ["topics", "skip", log, "0", str(offset), *more]
        code = await asyncio.to_thread(main, arguments)
        return code, capsys.readouterr().err

    async with site.engine() as engine:
        offset = forge(site, topic, FORGED[log])
        await until(
            lambda: any("halfhitch topics skip" in why for why in engine.degraded_reasons()),
            "it stands still, and says so",
        )
    why = ("--reason", "nobody has ever run a newer release")
    code, said = await skip(offset + 1, *why, "--yes")
    assert (code, "holds no record at offset" in said) == (1, True)
    code, said = await skip(offset, "--yes")
    assert (code, "--reason" in said) == (2, True), "without a reason nothing is passed over"
    code, said = await skip(offset, *why)
    assert (code, "--yes" in said) == (2, True), "nobody can be asked here"
    code, said = await skip(offset, *why, "--operator", "ops", "--yes")
    assert code == 0, said
    async with site.engine(working=PARTITION_COUNT) as engine:
        for number in range(4):
            prepared = await site.prepare(engine, site.pair(f"T{number}"), f"T{number}")
            await engine.transactions.end(prepared.handle, Resolution.COMMIT, wait_visible=True)
        assert engine.degraded_reasons() == []
        nobodys = StoryQuery(transaction_id="")
        while not (page := await engine.stories.stories(nobodys)).stories:  # with the next step
            await asyncio.sleep(0.1)
        ((told,),) = ([e for e in story.events if e.what == "skipped"] for story in page.stories)
        assert (told.outcome, told.number, told.by) == (f"{log}-0", offset, "ops")
        assert told.reason == "nobody has ever run a newer release"
    assert "by order of ops: nobody has ever run a newer release" in caplog.text
    if log == "half":
        code, said = await skip(offset + 1, *why, "--yes")
        assert (code, "stops nobody" in said or "holds no record" in said) == (1, True)
