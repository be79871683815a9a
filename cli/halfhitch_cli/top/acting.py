"""The screen of an action: a reason, the dry run, the doing, the account.

Invariants: nothing is done before its dry run was on the screen, with the reason that is there now;
a second Enter does nothing, for the button that does it has to be reached; to leave stops what is
under way between two requests.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from halfhitch.errors import HalfHitchError
from halfhitch.wire.plain import shown
from halfhitch_cli import bulk
from halfhitch_cli.bulk import Account
from halfhitch_cli.selection import Filters, unseen
from halfhitch_cli.top import doing
from halfhitch_cli.top.doing import Deed, Meant
from halfhitch_cli.top.looking import Door
from halfhitch_cli.top.pages import BAD, DIM, told_filters
from halfhitch_cli.top.screens import aside

_NAMED_MAX: Final = 10
_FAILURES_MAX: Final = 100


class ActionScreen(ModalScreen[bool]):
    """Does one thing to those that were chosen, or to all that match; True when it was done."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Back", key_display="Esc")]

    def __init__(
        self, door: Door, deed: Deed, chosen: Sequence[Any] | Filters, identity: str | None
    ) -> None:
        super().__init__()
        self._door = door
        self._deed = deed
        self._chosen = chosen
        self._identity = identity
        self._agreed: Meant | None = None
        self._account: Account | None = None
        self._is_over = False

    def compose(self) -> ComposeResult:
        """From top to bottom, as it is done."""
        deed = self._deed
        with Vertical(classes="box"):
            yield Static(
                Text.assemble((deed.verb, "bold"), f" {self._whom()}\n", (deed.about, DIM))
            )
            yield Input(
                placeholder="the reason; it is kept for those who look later"
                if deed.needs_reason
                else "a reason, if there is one",
                id="reason", max_length=200,
            )  # fmt: skip
            if self._identity is None:
                yield Input(
                    bulk.operator_here(), placeholder="who decides", id="who", max_length=100
                )
            else:
                yield Static(Text(f"Signed by identity {shown(self._identity)}.", DIM))
            with VerticalScroll(id="account"):
                yield Static(id="told", markup=False)
            with Horizontal(id="buttons"):
                yield Button("Show what would be done", id="dry", compact=True)
                yield Button(deed.verb, id="do", compact=True, disabled=True)
                yield Button("Close", id="close", compact=True)

    def _whom(self) -> str:
        if isinstance(self._chosen, Filters):
            return f"all that match {shown(told_filters(self._chosen)) or 'no filter at all'}"
        count = len(self._chosen)
        return "1 transaction" if count == 1 else f"{count:,} transactions"

    def on_mount(self) -> None:
        """What is missing first."""
        self.query_one("#reason").focus()

    # -- dry run ---------------------------------------------------------------------------------

    def on_input_changed(self) -> None:
        """Whoever changes the reason looks again."""
        if self._account is None and self._agreed is not None:
            self._agreed = None
            self.query_one("#do", Button).disabled = True
            self._tell(Text())

    def on_input_submitted(self) -> None:
        """Enter: the dry run, and never more than that."""
        if self._account is None:
            self._show_dry()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """The three buttons."""
        if event.button.id == "dry" and self._account is None:
            self._show_dry()
        elif event.button.id == "do" and self._agreed is not None and self._account is None:
            self._do(self._agreed)
        elif event.button.id == "close":
            self.action_leave()

    def _texts(self) -> tuple[str, str | None]:
        who = self.query("#who").results(Input)
        return self.query_one("#reason", Input).value, next((each.value for each in who), None)

    def _show_dry(self) -> None:
        reason, operator = self._texts()
        needs_reason = self._deed.needs_reason

        def work() -> Meant:
            bulk.check_texts(
                reason, "x" if operator is None else operator, needs_reason=needs_reason
            )
            return doing.meant(self._door, self._deed, self._chosen)

        def then(result: Any) -> None:
            if not self.is_attached or self._account is not None:
                return
            if isinstance(result, HalfHitchError):
                self._tell(Text(shown(result.message), BAD))
                return
            if (reason, operator) != self._texts():
                return  # meanwhile it was changed
            self._agreed = result if result.rows else None
            button = self.query_one("#do", Button)
            button.disabled = self._agreed is None
            button.label = f"{self._deed.verb} {len(result.rows):,}"
            self._tell(_told(self._deed, result))
            self.query_one("#close").focus()  # so that a second Enter does nothing

        self._agreed = None
        self._tell(Text("Looking…", DIM))
        aside(self.app, work, then)

    # -- the doing -------------------------------------------------------------------------------

    def _do(self, agreed: Meant) -> None:
        reason, operator = self._texts()
        account = self._account = Account(tell=lambda _: None)
        for widget in ("#reason", "#dry", "#do", *(["#who"] if self._identity is None else [])):
            self.query_one(widget).disabled = True
        self.query_one("#close", Button).label = "Stop"
        self.query_one("#close").focus()

        def then(result: Any) -> None:
            self._is_over = True
            if not self.is_attached:
                return
            self.query_one("#close", Button).label = "Close"
            text = _accounted(self._deed, account, len(agreed.rows))
            if isinstance(result, HalfHitchError):
                text.append(f"\n{shown(result.message)}", BAD)
            self._tell(text)

        def progress() -> None:
            if not self._is_over:
                self._tell(Text(f"{len(account.seen):,} of {len(agreed.rows):,}"))

        progress()
        self.set_interval(0.5, progress)
        aside(
            self.app,
            lambda: doing.carry_out(self._door, self._deed, agreed, reason, operator, account),
            then,
        )

    def action_leave(self) -> None:
        """Stop what is under way; when that has ended, back."""
        if self._account is not None and not self._is_over:
            self._account.is_stopped = True
            return
        self.dismiss(self._account is not None)

    def _tell(self, text: Text) -> None:
        self.query_one("#told", Static).update(text)


def _told(deed: Deed, agreed: Meant) -> Text:
    rows = agreed.rows
    groups = sorted({row["producer_group"] for row in rows})
    whose = f"group {shown(groups[0])}" if len(groups) == 1 else f"{len(groups)} groups"
    count = "1 transaction" if len(rows) == 1 else f"{len(rows):,} transactions"
    text = Text(f"{count} of {whose} would be {deed.done}:", "bold")
    if not rows:
        text = Text("Nothing matches: nothing to do.")
    for row in rows[:_NAMED_MAX]:
        text.append(f"\n  {shown(row['transaction_id'])}  {shown(row['producer_group'])}")
    if len(rows) > _NAMED_MAX:
        text.append(f"\n  and {len(rows) - _NAMED_MAX:,} more")
    for left_count, why in (
        (agreed.gone_count, "of those that were chosen are not there any more"),
        (agreed.forbidden_count, "are left out: you may not operate on their groups"),
        (agreed.beyond_count, "cannot be reached at once: do it again afterwards"),
    ):
        if left_count:
            text.append(f"\n{left_count:,} {why}.", BAD)
    if agreed.selected.missing_partitions:
        text.append(f"\nNot everything was seen: {unseen(agreed.selected.missing_partitions)}", BAD)
    if rows:
        text.append("\nNothing was done yet.", DIM)
    return text


def _accounted(deed: Deed, account: Account, agreed_count: int) -> Text:
    text = Text(f"{len(account.done):,} {deed.done}.", "bold")
    failed = account.failed
    if failed:
        text.append(f"\n{len(failed):,} not:", BAD)
    for row in failed[:_FAILURES_MAX]:
        name = f"{shown(row['transaction_id'])}  {shown(row['producer_group'])}"
        text.append(f"\n  {name}: {shown(row['failure'])}")
    if len(failed) > _FAILURES_MAX:
        text.append(f"\n  and {len(failed) - _FAILURES_MAX:,} more")
    untold_count = agreed_count - len(account.seen)
    if untold_count:
        text.append(f"\n{untold_count:,} were not tried.", BAD)
    if account.is_stopped:
        text.append("\nStopped.", BAD)
    return text
