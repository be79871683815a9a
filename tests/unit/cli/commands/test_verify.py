"""`halfhitch verify` without Kafka: what it shows of findings, its exit codes, its options."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.core.model import Resolution
from halfhitch.errors import KafkaUnavailable
from halfhitch.verify.bounds import Rules
from halfhitch.verify.kafka_targets import Wanted
from halfhitch.verify.run import verify as verify_logs
from halfhitch_cli.app import main
from halfhitch_cli.commands import verify
from halfhitch_cli.scope import Scope
from harness.verify_logs import WorldLogs
from harness.verify_world import OP, TARGETS, World

if TYPE_CHECKING:
    from collections.abc import Callable

#: 2026-11-21T16:00:00Z
SCOPE = Scope("", Wanted(), Rules())


@pytest.fixture
def world(rng: random.Random) -> World:
    made = World(rng)
    for resolution in (Resolution.COMMIT, Resolution.ROLLBACK, Resolution.PARK):
        made.decide(made.prepare(2), resolution)
        made.settle()
    return made


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """The command over a world instead of a Kafka."""

    def run(world: World, *arguments: str) -> tuple[int, str, str]:
        def looked(_settings: Any, _targets: Any, since_ms: int, _wait: float, **more: Any) -> Any:
            return verify_logs(WorldLogs(world, patience=40), since_ms=since_ms, **more), SCOPE

        monkeypatch.setattr(verify, "_run", looked)
        capsys.readouterr()
        code = main(["verify", "--kafka-bootstrap", "k:1", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_clean_is_0_and_every_figure_is_in_the_json(run: Any, world: World) -> None:
    world.prepare(2)
    code, out, err = run(world, "-o", "json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert found["clean"] is True
    assert found["transactions"] == {
        "found": 4,
        "committed": 1,
        "committed_and_judged_whole": 1,
        "rolled_back": 1,
        "parked": 1,
        "contrary_decisions": 0,
        "messages_of_reused_ids": 0,
        "unfinished": {"undecided": 1},
    }
    (row,) = found["unfinished"]
    assert (row["state"], row["message_count"]) == ("undecided", 2)
    assert {topic["topic"]: topic["role"] for topic in found["window"]["topics"]} == {
        "half": "half",
        "op": "op",
        "parked": "parked",
        **dict.fromkeys(TARGETS, "target"),
    }
    assert found["read"]["facts_bytes"] > 0


def test_what_the_owner_trims_of_its_own_logs_was_shown_as_deleted(run: Any, world: World) -> None:
    """On an installation of a minute it looked as if something was missing."""
    for log in [world.logs[place] for place in world.logs if place[0] in ("half", OP)]:
        log.start = min(1, len(log.records))
    _, out, _ = run(world)
    assert "deleted" not in out
    assert out.count("done, trimmed") == 2
    target = next(log for place, log in world.logs.items() if place[0] in TARGETS and log.records)
    target.start = 1
    _, out, _ = run(world)
    assert out.count("  deleted") == 1


def test_a_violation_is_3_and_named_with_its_place(run: Any, world: World) -> None:
    record = world.records_of(world.lives[0])[0]
    copy = world.append(record.place, record.stored_key, record.stored_value, record.stored_headers)
    code, out, _ = run(world)
    assert code == 3
    assert "NOT CLEAN" in out
    assert "doubled" in out
    assert world.lives[0].identity[1] in out
    for lies in (record, copy):
        assert f"{lies.place[0]}-{lies.place[1]}@{lies.at}" in out


def test_a_terminal_is_not_sent_codes_of_a_strangers_id(run: Any, world: World) -> None:
    headers = [("UNIQ_KEY", b"\x1b[2Jx"), ("PGROUP", b"\xff"), ("HALFHITCH", b"1;0;0;i")]
    world.append(("orders", 0), None, None, list(headers))
    world.append(("points", 0), None, None, list(headers))
    world.decide(world.prepare(2), Resolution.COMMIT)
    world.settle()
    code, out, _ = run(world)
    assert code == 3
    assert "\x1b" not in out


def test_what_is_not_complete_is_4(run: Any, world: World) -> None:
    world.append((OP, 0), None, None, [], state="open")
    world.decide(world.prepare(1), Resolution.COMMIT)
    for place, log in world.logs.items():
        if place[0] in TARGETS:
            for record in log.records:
                record.state = "aborted"
            world.append(place, None, None, [], state="open")
    code, out, err = run(world)
    assert code == 4
    assert "open Kafka transaction" in out
    assert "not judged" in out
    assert "leave a question open" in err


def test_nothing_to_judge_is_4(run: Any, rng: random.Random) -> None:
    code, _, err = run(World(rng))
    assert code == 4
    assert "Not judged" in err
    assert "topics.prefix" in err
    world = World(rng)
    world.prepare(1)
    code, out, err = run(world)
    assert code == 4
    assert "0 of 0 that have ended" in out
    assert "no transaction has ended" in err


def test_clean_was_said_with_every_committed_transaction_lost_and_none_judged(
    run: Any, rng: random.Random
) -> None:
    """Every partition of every target is trimmed, and nothing is left on it: time excuses all."""
    world = World(rng)
    for _ in range(50):
        world.decide(world.prepare(1), Resolution.COMMIT)
    world.settle()
    for place, log in world.logs.items():
        if place[0] in TARGETS:
            for record in log.records:
                record.state = "aborted"
            log.start = len(log.records)
    code, out, err = run(world)
    assert code == 4
    assert "clean" not in out.split("Topic")[0]
    assert "0 of 50 that have ended (0 %)" in out
    assert "--judged-min asks for 50 %" in err
    code, out, _ = run(world, "--judged-min", "0", "-o", "json")
    assert code == 4, "of nothing at all it is never said"
    found = json.loads(out)
    assert (found["verdict"], found["judged"], found["judged_share"]) == ("not_judged", 0, 0.0)


def test_how_much_must_be_judged_is_the_callers_to_say(run: Any, world: World) -> None:
    """One of four cannot be."""
    life = world.prepare(messages=[("orders", b"k", b"v", 1)])
    world.decide(life, Resolution.COMMIT)
    world.settle()
    log = world.logs["orders", 1]
    log.start = len(log.records)
    for percent, expected in (("0", 0), ("75", 0), ("76", 4), ("100", 4)):
        code, out, _ = run(world, "--judged-min", percent, "-o", "json")
        found = json.loads(out)
        if found["judged"] == 3:
            assert code == expected, percent
        else:  # the other committed one of this world lay there, too
            assert (code, found["judged"]) == (0 if percent == "0" else 4, 2), percent
    assert main(["verify", "--kafka-bootstrap", "k:1", "--judged-min", "101"]) == 2


def test_a_group_that_nobody_knows_was_called_clean(run: Any, world: World) -> None:
    code, out, err = run(world, "--group", "nope")
    assert (code, out) == (2, "")
    assert "'nope'" in err
    assert "--group" in err
    known = world.lives[0].identity[0]
    assert f"did you mean {known!r}?" in run(world, "--group", known + "s")[2]


def test_kafka_away_is_1_and_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def away(*_args: Any, **_more: Any) -> Any:
        raise KafkaUnavailable("Kafka does not answer at k:1.")

    monkeypatch.setattr(verify, "_run", away)
    assert main(["verify", "--kafka-bootstrap", "k:1"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "halfhitch: Kafka does not answer at k:1.\n"


@pytest.mark.parametrize("text", ["yesterday", "2h ago", "", "5"])
def test_another_since_is_wrong_usage(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--kafka-bootstrap", "k:1", "--since", text]) == 2
    assert "--since" in capsys.readouterr().err
