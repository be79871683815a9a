"""The benchmark of what operators wait for: its plan, its table, and what it reads of the door."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from bench import operators


def test_the_plan_is_that_of_the_issue_unless_it_is_said() -> None:
    plan = operators.read_plan([])
    assert (plan.record_count, plan.pending_count, plan.topic_count) == (1_000_000, 100_000, 500)
    assert operators.read_plan(["--records", "20000", "--turns", "3"]).turns == 3


def test_a_table_has_the_median_and_the_range() -> None:
    table = operators.Table()
    table.times("tx trace", [0.3, 0.1, 0.2])
    table.rows.append(("audit topic", "1.04 times", "0.9 to 1.2", "24 with, 23 without"))
    assert str(table).splitlines() == [
        "what         median      least to most",
        "tx trace     200 ms      100 to 300",
        "audit topic  1.04 times  0.9 to 1.2     24 with, 23 without",
    ]


def test_a_command_that_fails_is_no_figure() -> None:
    with pytest.raises(operators.subprocess.CalledProcessError):
        operators.command("tx", "list", "--server", "http://127.0.0.1:1")
    operators.command("--help")


async def test_every_transaction_is_prepared_once_and_an_answer_is_read_to_its_end(
    tmp_path: Path,
) -> None:
    asked: list[bytes] = []

    async def door(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):  # the caller has ended
            while True:
                head, _ = await operators.answer_of(reader)
                asked.append(head.partition(b" HTTP")[0])
                status = b"201 Created" if b"/half" in head else b"200 OK"
                writer.write(
                    b"HTTP/1.1 %b\r\nHalf-Handle: h%d\r\nContent-Length: 2\r\n\r\n{}"
                    % (status, len(asked))
                )
        writer.close()
        ended.append(writer)

    ended: list[asyncio.StreamWriter] = []
    place = tmp_path / "door.sock"
    async with await asyncio.start_unix_server(door, place):
        handles = await operators.prepare(f"unix:{place}", ["a", "b"], 50)
        await operators.commit(f"unix:{place}", handles[:2])
        while len(ended) < 33:  # 32 that prepare, one that commits
            await asyncio.sleep(0)
        for writer in ended:
            await writer.wait_closed()
    assert sorted(handles) == sorted(f"h{number}" for number in range(1, 51))
    assert asked.count(b"POST /v1/topics/a/half") == asked.count(b"POST /v1/topics/b/half") == 25
    assert asked[50:] == [
        b"POST /v1/transactions/%b/commit?wait=visible" % handle.encode() for handle in handles[:2]
    ]
