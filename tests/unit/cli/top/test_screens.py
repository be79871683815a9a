"""What is typed as a filter, and what is done aside."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import typer

from halfhitch.errors import BackendError
from halfhitch_cli.selection import Filters
from halfhitch_cli.top import screens

ALL = Filters(
    group="a group", topic="t'", older_than="1h30m", min_checks=3, transaction_id='i"=[red]'
)


@pytest.mark.parametrize("filters", [Filters(), ALL])
def test_a_filter_is_typed_and_read_again(filters: Filters) -> None:
    assert screens.parsed(screens.typed(filters)) == filters


def test_a_word_alone_is_an_id() -> None:
    assert screens.parsed("order-7 group=shop") == Filters(transaction_id="order-7", group="shop")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("group='shop", "quotation mark"),
        ("gruop=shop", "'gruop=shop' is none of group="),
        ("group=a group=b", "each once"),
        ("group=", "is none of"),
        ("older=soon", "older= takes a number and s, m, h or d"),
        ("checks=many", "checks= takes a whole number"),
        ("checks=99999", "checks= takes a whole number"),
    ],
)
def test_what_is_wrong_with_it_is_a_sentence(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        screens.parsed(text)


class App:
    """Takes messages, as long as it runs."""

    def __init__(self, *, is_over: bool = False) -> None:
        self.is_over = is_over
        self.heard = threading.Event()
        self.results: list[Any] = []

    def post_message(self, message: screens.Heard) -> None:
        self.heard.set()
        if self.is_over:
            raise RuntimeError("no loop")
        message.then(message.result)


@pytest.mark.parametrize(
    ("fails", "told"),
    [
        (BackendError("nobody"), "nobody"),
        (typer.BadParameter("--x is wrong"), "--x is wrong"),
        (KeyError("transactions"), "no sidecar's admin door"),
    ],
)
def test_what_fails_aside_comes_back_as_a_sentence(fails: Exception, told: str) -> None:
    def work() -> None:
        raise fails

    app = App()
    screens.aside(app, work, app.results.append)
    assert app.heard.wait(10)
    for thread in threading.enumerate():
        if thread.name == "halfhitch-top-aside":
            thread.join(10)
    assert told in app.results[0].message


def test_what_ends_after_the_screen_has_gone_disturbs_nobody() -> None:
    app = App(is_over=True)
    screens.aside(app, lambda: 1, app.results.append)
    assert app.heard.wait(10)
    assert app.results == []
