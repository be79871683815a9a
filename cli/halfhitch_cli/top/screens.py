"""What comes up over the pages: the keys, a filter, one transaction's story.

Invariants: what is typed is an Input's, what is shown is Text; Escape leads back from everywhere.
"""

import shlex
import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

import typer
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from halfhitch.errors import HalfHitchError
from halfhitch_cli.selection import Filters, seconds
from halfhitch_cli.top import story
from halfhitch_cli.top.looking import Door
from halfhitch_cli.top.pages import BAD, DIM

_BACK: Final = Binding("escape,q", "dismiss", "Back", key_display="Esc")
_FILTERS: Final = "group=, topic=, id=, older= (30s, 10m, 2h, 3d), checks= (at least)"


class Heard(Message):
    """What was done aside has come to this."""

    def __init__(self, then: Callable[[Any], None], result: Any) -> None:
        super().__init__()
        self.then = then
        self.result = result


def aside(app: Any, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
    """Do it on a thread that nobody waits for; `then` gets the result or the HalfHitchError."""

    def run() -> None:
        try:
            result = work()
        except HalfHitchError as error:
            result = error
        except typer.BadParameter as error:  # what the command line says of its flags
            result = HalfHitchError(error.message)
        except (KeyError, TypeError, ValueError, AttributeError):
            result = HalfHitchError("What answered is no sidecar's admin door of this release.")
        try:
            app.post_message(Heard(then, result))
        except RuntimeError:
            pass  # the terminal is somebody else's again

    threading.Thread(target=run, name="halfhitch-top-aside", daemon=True).start()


class KeysScreen(ModalScreen[None]):
    """All keys."""

    BINDINGS: ClassVar[list[BindingType]] = [_BACK, Binding("question_mark", "dismiss", show=False)]

    def __init__(self, keys: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._keys = keys

    def compose(self) -> ComposeResult:
        """The list."""
        lines = [Text.assemble((f"{key:<10}", "bold"), does) for key, does in self._keys]
        with VerticalScroll(classes="box"):
            yield Static(Text("\n").join([Text("Keys", "bold"), Text(), *lines]))

    def on_mount(self) -> None:
        """So that the arrows scroll."""
        self.query_one(VerticalScroll).focus()


class FilterScreen(ModalScreen[Filters | None]):
    """One line with what is wanted."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Back", key_display="Esc")
    ]

    def __init__(self, filters: Filters, page: str) -> None:
        super().__init__()
        self._filters = filters
        self._page = page

    def compose(self) -> ComposeResult:
        """The line, and how it is written."""
        with Vertical(classes="box"):
            yield Static(Text("Filter", "bold"))
            yield Input(typed(self._filters), id="filter", select_on_focus=False)
            yield Static(Text(f"{_FILTERS}\nEnter shows what matches; an empty line, all.", DIM))
            yield Static(id="wrong", markup=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Back with it, or what is wrong with it."""
        try:
            self.dismiss(parsed(event.value))
        except ValueError as error:
            self.query_one("#wrong", Static).update(Text(str(error), BAD))


def typed(filters: Filters) -> str:
    """As it can be parsed again."""
    given = {
        "id": filters.transaction_id, "group": filters.group, "topic": filters.topic,
        "older": filters.older_than, "checks": filters.min_checks,
    }  # fmt: skip
    return " ".join(f"{n}={shlex.quote(str(v))}" for n, v in given.items() if v is not None)


def parsed(text: str) -> Filters:
    """Raises ValueError with a sentence."""
    try:
        words = shlex.split(text)
    except ValueError:
        raise ValueError("A quotation mark is missing.") from None
    given: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            name, value = "id", word
        if name not in ("id", "group", "topic", "older", "checks") or name in given or not value:
            raise ValueError(f"{word!r} is none of {_FILTERS}, each once.")
        given[name] = value
    if "older" in given:
        try:
            seconds(given["older"], "older=")
        except typer.BadParameter as error:
            raise ValueError(error.message) from None
    if "checks" in given:
        if not given["checks"].isdecimal() or int(given["checks"]) > 10_000:
            raise ValueError("checks= takes a whole number, 10000 at most.")
        given["checks"] = int(given["checks"])
    return Filters(
        group=given.get("group"), topic=given.get("topic"), transaction_id=given.get("id"),
        older_than=given.get("older"), min_checks=given.get("checks"),
    )  # fmt: skip


class TraceScreen(ModalScreen[None]):
    """One transaction: why it is where it is, its story; its messages when they are asked for."""

    BINDINGS: ClassVar[list[BindingType]] = [
        _BACK,
        Binding("v", "values", "Messages"),
        Binding("r", "again", "Look again"),
    ]

    def __init__(self, door: Door, group: str, transaction_id: str) -> None:
        super().__init__()
        self.group = group
        self.transaction_id = transaction_id
        self._door = door
        self._with_values = False

    def compose(self) -> ComposeResult:
        """One long text."""
        with VerticalScroll(classes="wide"):
            yield Static(Text("Asking…", DIM), id="story", markup=False)
            yield Static(
                Text("v shows its messages with what they say, r looks again, Esc leads back", DIM)
            )

    def on_mount(self) -> None:
        """Ask."""
        self.query_one(VerticalScroll).focus()
        self.action_again()

    def action_again(self) -> None:
        """Ask once more."""
        is_wanted = self._with_values

        def told() -> Text:
            return story.told(self._door, self.group, self.transaction_id, values=is_wanted)

        aside(self.app, told, self._show)

    def action_values(self) -> None:
        """Now also keys, values and headers."""
        self._with_values = True
        self.query_one("#story", Static).update(Text("Asking for its messages…", DIM))
        self.action_again()

    def _show(self, result: Any) -> None:
        if self.is_attached:
            text = Text(result.message, BAD) if isinstance(result, HalfHitchError) else result
            self.query_one("#story", Static).update(text)
