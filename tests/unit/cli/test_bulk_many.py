"""--all-matching means all, and what is not done is known: over a door with thousands."""

from __future__ import annotations

import concurrent.futures
import json
import signal
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.errors import BackendError
from halfhitch_cli import bulk, selection
from halfhitch_cli.client import AdminClient, Refusal
from harness.fake_operations import FakeOperations, parked, undecided

if TYPE_CHECKING:
    from collections.abc import Mapping

WHY = ("--reason", "asked the shop")
ALL = ("--all-matching", "--group", "bulk", "--yes", "-o", "json")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "_LAG_S", 0.0)
    monkeypatch.setattr(bulk, "_PROGRESS_S", 1e9)


def fill(operations: FakeOperations, count: int) -> None:
    operations.pending = [undecided(f"T{number}", "bulk") for number in range(count)]
    operations.forgets = True


def test_all_matching_meant_the_oldest_ten_thousand(run: Any, operations: FakeOperations) -> None:
    fill(operations, 10_100)
    code, out, err = run("tx", "rollback", *WHY, *ALL)
    answer = json.loads(out)
    assert (code, err) == (0, "")
    assert (answer["done_count"], answer["matching_count"], answer["left_count"]) == (
        10_100, 10_100, 0,
    )  # fmt: skip
    assert len(operations.done()) == 10_100
    assert operations.pending == []


def test_more_than_one_answer_holds_is_asked_for_again(
    run: Any, operations: FakeOperations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "NAMES_MAX", 40)
    fill(operations, 100)
    code, out, _ = run("tx", "commit", *WHY, *ALL)
    assert (code, json.loads(out)["done_count"]) == (0, 100)
    # Checked ones stay where they are: the second page is the first one again.
    fill(operations, 100)
    code, out, err = run("tx", "check", *ALL)
    answer = json.loads(out)
    assert (code, answer["done_count"], answer["left_count"]) == (1, 40, 60)
    assert "60 of 100 that match are not among these" in err


def test_what_came_after_the_agreement_was_never_agreed_to(
    run: Any, operations: FakeOperations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "NAMES_MAX", 40)
    fill(operations, 50)
    post = AdminClient.post

    def while_others_prepare(self: AdminClient, path: str, body: Mapping[str, object]) -> Any:
        number = len(operations.pending) + 1_000 + len(operations.calls)
        operations.pending += [undecided(f"new-{number}-{n}", "bulk") for n in range(40)]
        return post(self, path, body)

    monkeypatch.setattr(AdminClient, "post", while_others_prepare)
    code, out, _ = run("tx", "rollback", *WHY, *ALL)
    assert (code, json.loads(out)["done_count"]) == (0, 50)


def test_what_could_not_be_seen_is_told_and_is_no_success(
    run: Any, operations: FakeOperations
) -> None:
    fill(operations, 3)
    operations.missing_partitions = [2, 3]
    code, out, err = run("tx", "rollback", *WHY, *ALL)
    answer = json.loads(out)
    assert (code, answer["done_count"], answer["missing_partitions"]) == (1, 3, [2, 3])
    assert "half partitions 2, 3 are other instances'" in err
    fill(operations, 0)
    code, out, err = run("tx", "rollback", *WHY, *ALL)
    assert code == 1
    assert "Nothing matches" in err
    assert "half partitions 2, 3" in err


def test_parked_ones_that_were_not_looked_at_are_told(run: Any, operations: FakeOperations) -> None:
    operations.given_up = [parked("P1", "bulk")]
    operations.left_out_count = 7
    code, out, err = run("parked", "resume", *WHY, *ALL)
    assert (code, json.loads(out)["left_out_count"]) == (1, 7)
    assert "7 more parked messages were not looked at" in err


def test_ctrl_c_left_no_account(
    run: Any, operations: FakeOperations, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(operations, 3_000)
    monkeypatch.setattr(bulk, "_CHUNK_MAX", 10)
    real, waits = concurrent.futures.wait, []

    def wait(*given: Any) -> Any:
        waits.append(given)
        if len(waits) == 3:
            signal.raise_signal(signal.SIGINT)
        return real(*given)

    monkeypatch.setattr(concurrent.futures, "wait", wait)
    code, out, err = run("tx", "rollback", *WHY, *ALL)
    answer = json.loads(out)
    assert (code, answer["stopped"]) == (130, True)
    assert answer["done_count"] + answer["failed_count"] == 3_000
    assert answer["done_count"] == len(operations.done())
    assert 0 < answer["done_count"] < 3_000
    assert answer["failed"][-1]["reason"] == "not tried: stopped"
    assert "Stopped." in err


def test_an_outage_leaves_the_rest_alone(
    run: Any, operations: FakeOperations, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(operations, 3_000)

    def away(*_: object) -> None:
        raise BackendError("no answer")

    monkeypatch.setattr(AdminClient, "post", away)
    code, out, _ = run("tx", "commit", *WHY, *ALL)
    answer = json.loads(out)
    assert (code, answer["done_count"], answer["failed_count"]) == (1, 0, 3_000)
    reasons = [failed["reason"] for failed in answer["failed"]]
    assert (reasons[0], reasons[-1]) == ("no answer", "not tried: nobody answers")


def test_an_older_sidecar_is_asked_in_pages_and_one_by_one(
    run: Any, operations: FakeOperations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "LIMIT_MAX", 20)
    fill(operations, 50)
    post, find, paths = AdminClient.post, AdminClient.find, []

    def old_post(self: AdminClient, path: str, body: Mapping[str, object]) -> Any:
        if path.startswith("/v1/many"):
            raise Refusal("no such route", status=404, reason="no such route")
        paths.append(path)
        answer = post(self, path, body)
        operations.pending = [t for t in operations.pending if t.transaction_id not in path]
        return answer

    def old_find(self: AdminClient, path: str, filters: Mapping[str, object]) -> Any:
        if path == "/v1/names":
            raise Refusal("no such route", status=404, reason="no such route")
        return find(self, path, filters)

    operations.pending = [undecided(f"T-{number:03}", "bulk") for number in range(50)]
    monkeypatch.setattr(AdminClient, "post", old_post)
    monkeypatch.setattr(AdminClient, "find", old_find)
    code, out, _ = run("tx", "rollback", *WHY, *ALL)
    answer = json.loads(out)
    assert (code, answer["done_count"], answer["left_count"]) == (0, 50, 0)
    assert len(paths) == 50


def test_somebody_else_may_decide_the_rest_meanwhile(
    run: Any, operations: FakeOperations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "NAMES_MAX", 10)
    fill(operations, 30)
    post = AdminClient.post

    def and_all_others(self: AdminClient, path: str, body: Mapping[str, object]) -> Any:
        answer = post(self, path, body)
        operations.pending = []
        return answer

    monkeypatch.setattr(AdminClient, "post", and_all_others)
    code, out, _ = run("tx", "commit", *WHY, *ALL)
    answer = json.loads(out)
    assert (code, answer["done_count"], answer["left_count"]) == (0, 10, 0)


def test_a_long_account_is_a_count_for_people(run: Any, operations: FakeOperations) -> None:
    fill(operations, 1_500)
    operations.fails = {"T7": BackendError("not now")}
    code, out, err = run("tx", "rollback", *WHY, *ALL[:-2])
    assert code == 1
    assert [line.split() for line in out.splitlines()[1:]] == [
        ["1499", "rolled", "back", "(-o", "json", "names", "them)"],
        ["T7", "bulk", "not", "now"],
    ]
    assert "1499 rolled back, 1 not." in err


def test_ids_of_any_characters_fit_into_a_request(run: Any, operations: FakeOperations) -> None:
    operations.pending = [undecided("\U0001f600" * 60 + str(n), "bulk") for n in range(120)]
    code, out, _ = run("tx", "rollback", *WHY, *ALL)
    assert (code, json.loads(out)["done_count"]) == (0, 120)
