"""`halfhitch produce` without a sidecar: what it asks for, and what it says."""

from __future__ import annotations

import io
import json
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import pytest

from halfhitch.client import Message
from halfhitch.errors import BackendError, Unauthorized
from halfhitch_cli.app import main
from halfhitch_cli.commands import produce

if TYPE_CHECKING:
    from collections.abc import Callable


class Producer:
    """Stands for TransactionProducer."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.made: tuple[Any, ...] = ()
        self.failure: Exception | None = None
        self.state = "pending"

    def __call__(self, *given: Any) -> Producer:
        self.made = given
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def prepare(self, messages: list[Message], transaction_id: str | None) -> Any:
        self.calls.append(("prepare", messages, transaction_id))
        return SimpleNamespace(transaction_id=transaction_id or "made-up", handle="h1")

    def commit(self, handle: str, *, wait_visible: bool) -> None:
        self.calls.append(("commit", handle, wait_visible))
        if self.failure is not None:
            raise self.failure

    def rollback(self, handle: str) -> None:
        self.calls.append(("rollback", handle))

    def view(self, handle: str) -> Any:
        assert handle == "h1"
        return SimpleNamespace(state=self.state)


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Producer:
    producer = Producer()
    monkeypatch.setattr(produce, "_producer", producer)
    return producer


@pytest.fixture
def run(
    producer: Producer, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["produce", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_a_message_could_not_be_sent_from_the_shell(
    producer: Producer, run: Callable[..., tuple[int, str, str]]
) -> None:
    code, out, err = run("orders", "one", "-k", "42", "-H", "trace=a=b", "--id", "t1")
    assert (code, err) == (0, "")
    assert out == "Committed, visible on orders: transaction t1 of group shell.\n"
    message = Message("orders", b"one", "42", [("trace", "a=b")])
    assert producer.calls == [("prepare", [message], "t1"), ("commit", "h1", True)]
    assert producer.made[:2] == ("shell", None)


def test_held_it_is_left_undecided_and_says_how_to_go_on(
    producer: Producer, run: Callable[..., tuple[int, str, str]]
) -> None:
    code, out, err = run("orders", "one", "--hold", "--group", "my shop", "--id", "-t")
    assert code == 0
    assert out == "Stored, invisible: transaction -t of group my shop, 1 message for orders.\n"
    assert "halfhitch tx commit --reason '...' --group 'my shop' -- -t" in err
    assert [call[0] for call in producer.calls] == ["prepare"]


def test_rolled_back_nobody_sees_it(
    producer: Producer, run: Callable[..., tuple[int, str, str]]
) -> None:
    code, out, _ = run("orders", "one", "--rollback")
    assert code == 0
    assert "Rolled back: transaction made-up of group shell." in out
    assert [call[0] for call in producer.calls] == ["prepare", "rollback"]


def test_programs_get_the_handle(run: Callable[..., tuple[int, str, str]]) -> None:
    _, out, err = run("orders", "one", "--hold", "-o", "json")
    assert err == ""
    assert json.loads(out) == {
        "transaction_id": "made-up", "producer_group": "shell", "topic": "orders", "handle": "h1",
        "state": "pending",
    }  # fmt: skip


def test_a_commit_without_an_answer_says_what_is_left(
    producer: Producer, run: Callable[..., tuple[int, str, str]]
) -> None:
    producer.failure = BackendError("no answer")
    code, out, err = run("orders", "one")
    assert (code, out) == (1, "")
    assert "halfhitch tx commit --reason '...' --group shell made-up" in err
    assert "halfhitch: no answer" in err


def test_the_value_may_come_from_stdin(
    producer: Producer,
    run: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = io.TextIOWrapper(io.BytesIO(b"\xff\n"))
    monkeypatch.setattr(sys, "stdin", content)
    assert run("orders")[0] == 0
    assert producer.calls[0][1][0].value == b"\xff\n"
    monkeypatch.setattr(produce, "_VALUE_BYTES_MAX", 1)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"12")))
    assert run("orders")[0] == 2
    content.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", content)
    code, _, err = run("orders")
    assert code == 2
    assert "echo one | halfhitch produce" in err


def test_an_empty_stdin_was_committed_as_an_empty_message(
    producer: Producer,
    run: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    code, _, err = run("orders")
    assert code == 2
    assert "For a message without content give ''." in err
    assert producer.calls == []
    assert run("orders", "")[0] == 0
    assert producer.calls[0][1][0].value == b""


def test_a_missing_token_says_where_to_put_it(
    producer: Producer,
    run: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: object) -> None:
        raise Unauthorized("Send a token that this door knows.")

    monkeypatch.setattr(producer, "prepare", refused)
    code, _, err = run("orders", "one")
    where = "HALFHITCH_AUTH_TOKENS or --auth-token-file"
    assert code == 1
    assert err == f"halfhitch: Send a token that this door knows. Here: {where}.\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("orders", "x", "--hold", "--rollback"), "give one"),
        (("orders", "x", "-H", "trace"), "NAME=VALUE"),
        (("orders", "x", "-H", "=7"), "NAME=VALUE"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_sent(
    producer: Producer,
    run: Callable[..., tuple[int, str, str]],
    arguments: tuple[str, ...],
    said: str,
) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    assert said in err
    assert producer.calls == []


def test_an_address_without_a_sidecar_is_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("halfhitch.client.sync.TransactionProducer.prepare", _refused)
    assert main(["produce", "orders", "x", "--address", "http://127.0.0.1:1"]) == 1
    assert capsys.readouterr().err == "halfhitch: cannot be reached\n"
    assert main(["produce", "orders", "x", "--address", "127.0.0.1:1"]) == 2
    assert "it must begin with http://" in capsys.readouterr().err


def _refused(*_: object) -> None:
    raise BackendError("cannot be reached")


def test_what_was_prepared_and_committed_before_is_not_said_to_be_invisible(
    run: Callable[..., tuple[int, str, str]], producer: Producer
) -> None:
    """It said "Stored, invisible", and named a command that could not succeed."""
    producer.state = "committed"
    code, out, err = run("orders", "x", "--id", "first", "--hold")
    assert (code, err) == (0, "")
    assert out == (
        "It has ended before, and nothing is stored again. Committed, visible on orders: "
        "transaction first of group shell.\n"
    )
    code, out, _ = run("orders", "x", "--id", "first", "--hold", "-o", "json")
    assert (code, json.loads(out)["state"]) == (0, "committed")
