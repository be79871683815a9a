"""The screen: pages, keys, and what the looking thread tells.

Owns `TopApp`. Invariants: only textual's thread touches widgets; what is shown stays when the door
goes away, with words that say how old it is, and is renewed when the door is there again; on a
terminal without colour nothing is lost, for no colour says anything alone.
"""

import os
import time
from dataclasses import replace
from typing import ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.theme import Theme
from textual.widgets import Footer, Static

from halfhitch.errors import HalfHitchError
from halfhitch.wire.plain import shown
from halfhitch_cli.client import AdminClient
from halfhitch_cli.selection import Filters, age
from halfhitch_cli.top import pages
from halfhitch_cli.top.acting import ActionScreen
from halfhitch_cli.top.doing import DEEDS
from halfhitch_cli.top.listing import Key, Listing
from halfhitch_cli.top.looking import PAGE_ROWS, SKIP_MAX, Door, Look, Looking, Wish
from halfhitch_cli.top.numbers import Pace
from halfhitch_cli.top.screens import FilterScreen, Heard, KeysScreen, TraceScreen

#: The terminal's own colours, which suit it whether it is dark or light.
TERMINAL: Final = "terminal"
THEMES: Final = {TERMINAL: "halfhitch-terminal", "dark": "textual-dark", "light": "textual-light"}
#: An answer that is later than this is said to be awaited.
_LATE_S: Final = 3.0
#: What textual would colour besides.
_PLAIN: Final = (
    *("ansi-background", "ansi-foreground", "border-blurred", "block-hover-background"),
    *("block-cursor-foreground", "block-cursor-background"),
    *("block-cursor-blurred-foreground", "block-cursor-blurred-background"),
    *("footer-foreground", "footer-background", "footer-item-background"),
    *("footer-key-foreground", "footer-key-background"),
    *("footer-description-foreground", "footer-description-background"),
    *("input-cursor-foreground", "input-cursor-background"),
)
_DEED_KEYS: Final = {"c": "commit", "b": "rollback", "n": "check", "u": "resume"}
_FILTERED: Final = ("transactions", "parked", "groups")
_TRACED: Final = ("transactions", "parked")

KEYS: Final = (
    ("1 … 5", "Overview, Undecided, Parked, Groups, Partitions"),
    ("j k ↑ ↓", "Next, previous row; PgUp, PgDn, Home, End; ← → scroll a wide table"),
    ("Enter", "The transaction's story; of a group what is undecided"),
    ("/", "Filter"),
    ("s S", "Sort by the next column; the other way round"),
    ("[ ]", "Earlier, next page of a long list"),
    ("x  Esc", "Mark the row for an action, or take its mark off; take all marks off"),
    ("c b n", "Commit, roll back, check now: the marked ones, or the row under the cursor"),
    ("u", "Resume the marked parked ones, or the row under the cursor"),
    ("C B N U", "The same to all that match the filter"),
    ("r", "Look again, now"),
    ("p", "Pause"),
    ("d", "The terminal's colours, dark, light"),
    ("v", "In a story: its messages with what they say"),
    ("q", "Leave"),
)


class Told(Message):
    """The looking thread has an answer, or the error."""

    def __init__(self, told: Look | HalfHitchError) -> None:
        super().__init__()
        self.told = told


class TopApp(App[None]):
    """`halfhitch top`."""

    TITLE = "halfhitch top"
    ENABLE_COMMAND_PALETTE = False
    CSS_PATH = "top.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(number), f"page('{name}')", title, show=False)
            for number, (name, title) in enumerate(pages.TITLES.items(), 1)
        ),
        Binding("question_mark", "keys", "Keys", key_display="?"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("s", "sort", "Sort"),
        Binding("S", "turn", "Turn", show=False),
        Binding("left_square_bracket", "turn_page(-1)", "Earlier", show=False),
        Binding("right_square_bracket", "turn_page(1)", "Next", show=False),
        Binding("x", "mark", "Mark", show=False),
        Binding("escape", "unmark", "Mark none", show=False),
        *(
            binding
            for key, deed in _DEED_KEYS.items()
            for binding in (
                Binding(key, f"act('{deed}')", DEEDS[deed].verb),
                Binding(key.upper(), f"act('{deed}', True)", show=False),
            )
        ),
        Binding("r", "look", "Look", show=False),
        Binding("p", "pause", "Pause"),
        Binding("d", "colours", "Colours", show=False),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, client: AdminClient, interval_s: float, colours: str = TERMINAL) -> None:
        no_colour = bool(os.environ.get("NO_COLOR"))
        # With textual's own colours, NO_COLOR gives shades of grey; with the terminal's, none.
        super().__init__(ansi_color=True if no_colour else None)
        self.register_theme(_terminal_theme())
        self._colours = TERMINAL if no_colour else colours
        self.theme = THEMES[self._colours]
        self._door = Door(client)
        self._looking = Looking(Door(client), interval_s, self._tell)
        # Not looked for by name: a query sees what is uppermost, and nothing of what goes.
        self._head, self._tabs, self._told, self._numbers, self._about = (
            Static(id=name, markup=False)
            for name in ("head", "tabs", "trouble", "numbers", "about")
        )
        self._overview, self._list = VerticalScroll(id="overview"), Vertical(id="list")
        self._listing = Listing(id="rows")
        self._wish = Wish()
        self._sorts = {page: pages.first_sort(page) for page in pages.SORTS}
        self._look: Look | None = None
        self._rows: list[pages.Row] = []
        self._marked: dict[Key, pages.Row] = {}
        self._pace = Pace()
        self._trouble: HalfHitchError | None = None
        self._trouble_since = ""
        self._seen = ""
        self._has_answered = False
        self._is_paused = False

    def compose(self) -> ComposeResult:
        """Two lines, what is wrong, the page, the keys."""
        yield from (self._head, self._tabs, self._told)
        with self._overview:
            yield self._numbers
        with self._list:
            yield self._about
            yield self._listing
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Begin to look."""
        self._draw()
        self._overview.focus()
        self._looking.start()
        self.set_interval(1.0, self._tick)

    def on_unmount(self) -> None:
        """Look no more."""
        self._looking.stop()

    # -- what was told ---------------------------------------------------------------------------

    def _tell(self, told: Look | HalfHitchError) -> None:
        """On the looking thread."""
        try:
            self.post_message(Told(told))
        except RuntimeError:
            pass  # the screen has gone

    def on_told(self, event: Told) -> None:
        """Show it, or what is wrong beside what was seen before."""
        told = event.told
        if not self.screen_stack:  # it is being left
            return
        if isinstance(told, HalfHitchError):
            if self._trouble is None:
                self._trouble_since = _clock()
            self._trouble = told
            self._draw()
            return
        if told.numbers is not None:
            self._pace.feed(told.numbers)
        if self._trouble is not None and self._has_answered:
            self.notify(
                f"The sidecar answers again. It did not since {self._trouble_since}.",
                markup=False,
            )
        self._trouble, self._has_answered = None, True
        if told.wish == self._wish:  # else it is of a page that was left
            self._look, self._seen = told, _clock()
        self._draw()

    def on_heard(self, event: Heard) -> None:
        """Of what was done aside."""
        if self.screen_stack:
            event.then(event.result)

    def _tick(self) -> None:
        if self.screen_stack:
            self._draw_head()

    # -- drawing ---------------------------------------------------------------------------------

    def _draw(self) -> None:
        page = self._wish.page
        self._draw_head()
        self._overview.display, self._list.display = page == "overview", page != "overview"
        look = self._look
        if look is None or look.wish.page != page:
            self._draw_nothing()
        elif page == "overview":
            text = pages.overview(look, self._pace, self.size.width - 2)
            self._numbers.update(text)
        else:
            self._draw_list(look)
        self.refresh_bindings()

    def _draw_nothing(self) -> None:
        told = Text("" if self._trouble else "Looking…", "dim")
        self._numbers.update(told)
        self._about.update(told)
        self._rows = []
        self._listing.show(pages.Grid([], []), [], ())

    def _draw_list(self, look: Look) -> None:
        page = look.wish.page
        self._rows = pages.ordered(page, look.rows, self._sorts[page])
        found = pages.grid(page, self._rows, self.size.width - 5)
        keys = [pages.key_of(page, row) for row in self._rows]
        self._listing.show(found, keys, self._marked)
        self._about.update(pages.about(look, self._sorts[page], len(self._marked)))

    def _draw_head(self) -> None:
        self._head.update(pages.head(self._door.client.address, self._look, self._freshness()))
        self._tabs.update(pages.tabs(self._wish.page))
        trouble = self._told
        text = self._told_trouble()
        trouble.display = text is not None
        if text is not None:
            trouble.update(Text(text))

    def _freshness(self) -> str:
        if self._is_paused:
            return f"paused, seen {self._seen}"
        return f"seen {self._seen}" if self._seen else ""

    def _told_trouble(self) -> str | None:
        older = f" What is shown is of {self._seen}." if self._seen else ""
        if self._trouble is not None:
            since = f" Since {self._trouble_since}; it is asked again."
            return shown(self._trouble.message) + since + older
        asking_s = self._looking.asking_s
        if asking_s > _LATE_S:
            return f"The sidecar has been asked, and has not answered for {age(asking_s)}.{older}"
        return None

    def on_resize(self) -> None:
        """More columns, or fewer."""
        if self._look is not None:
            self._draw()

    # -- keys ------------------------------------------------------------------------------------

    def _wish_for(self, wish: Wish) -> None:
        is_other_page = wish.page != self._wish.page
        is_same_list = wish.filters == self._wish.filters
        self._wish = wish
        if is_other_page:
            self._look, self._seen = None, ""
        if is_other_page or not is_same_list:
            self._marked.clear()
        self._draw()
        (self._overview if wish.page == "overview" else self._listing).focus()
        self._looking.wish(wish)

    def action_page(self, page: str) -> None:
        """Show another page, all of it."""
        if page != self._wish.page:
            self._wish_for(Wish(page))

    def action_keys(self) -> None:
        """Show the keys."""
        self.push_screen(KeysScreen(KEYS))

    def action_look(self) -> None:
        """Ask now."""
        self._looking.again()

    def action_pause(self) -> None:
        """Ask no more, or again."""
        self._is_paused = not self._is_paused
        self._looking.pause(self._is_paused)
        self._draw_head()

    def action_colours(self) -> None:
        """The next ones."""
        if self.no_color:
            self.notify("NO_COLOR is set: there are no colours.", markup=False)
            return
        names = list(THEMES)
        self._colours = names[(names.index(self._colours) + 1) % len(names)]
        self.theme = THEMES[self._colours]

    def action_filter(self) -> None:
        """Ask for a filter."""
        page = self._wish.page if self._wish.page in _FILTERED else "transactions"
        filters = self._wish.filters

        def chosen(found: Filters | None) -> None:
            if found is not None:
                self._wish_for(Wish(page, found))

        self.push_screen(FilterScreen(filters, page), chosen)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what is possible here, to whom may do it, is offered."""
        if action not in ("act", "mark", "unmark"):
            return True
        page = self._wish.page
        if page not in _TRACED or self._look is None or not self._look.may_operate:
            return False
        return action != "act" or DEEDS[str(parameters[0])].kind == page

    def action_mark(self) -> None:
        """Choose the row, or not."""
        row = self._row_here()
        if row is not None and self._look is not None:
            key = pages.key_of(self._wish.page, row)
            if self._marked.pop(key, None) is None:
                self._marked[key] = row
            self._listing.action_cursor_down()
            self._draw_list(self._look)

    def action_unmark(self) -> None:
        """Choose none."""
        self._marked.clear()
        if self._look is not None:
            self._draw_list(self._look)

    def action_act(self, name: str, is_all: bool = False) -> None:  # noqa: FBT001 - a key's
        """Ask for a reason, and so on."""
        here = self._row_here()
        chosen = list(self._marked.values()) or ([here] if here is not None else [])
        if self._look is None or not (is_all or chosen):
            return
        identity = self._look.me.get("name")

        def over(is_done: bool | None) -> None:  # noqa: FBT001 - textual's form
            if is_done:
                self._marked.clear()
            self._looking.again()

        self.push_screen(
            ActionScreen(
                self._door, DEEDS[name], self._wish.filters if is_all else chosen, identity
            ),
            over,
        )

    def action_sort(self) -> None:
        """By the next column."""
        page = self._wish.page
        if page in self._sorts:
            self._sorts[page] = pages.next_sort(page, self._sorts[page])
            self._draw()

    def action_turn(self) -> None:
        """The other way round."""
        page = self._wish.page
        if page in self._sorts:
            sort = self._sorts[page]
            self._sorts[page] = replace(sort, is_reversed=not sort.is_reversed)
            self._draw()

    def action_turn_page(self, by: int) -> None:
        """Earlier or later ones of a long list."""
        if self._wish.page not in _TRACED or self._look is None:
            return
        skip = self._wish.skip + by * PAGE_ROWS
        if skip > SKIP_MAX:
            self.notify("A list ends here: choose fewer with a filter ( / ).", markup=False)
        elif 0 <= skip < max(1, self._look.total_count):
            self._wish_for(replace(self._wish, skip=skip))

    def on_data_table_row_selected(self) -> None:
        """Enter, or a click on the row under the cursor."""
        row = self._row_here()
        if row is None:
            return
        if self._wish.page in _TRACED:
            self.push_screen(TraceScreen(self._door, row["producer_group"], row["transaction_id"]))
        elif self._wish.page == "groups":
            self._wish_for(Wish("transactions", Filters(group=row["producer_group"])))

    def _row_here(self) -> pages.Row | None:
        here = self._listing.here
        return None if here is None or here >= len(self._rows) else self._rows[here]


def _clock() -> str:
    return time.strftime("%H:%M:%S")


def _terminal_theme() -> Theme:
    """Nothing but the terminal's own foreground, background and eight colours."""
    plain = "ansi_default"
    return Theme(
        name=THEMES[TERMINAL],
        ansi=True,
        dark=True,
        primary="ansi_blue",
        secondary="ansi_cyan",
        warning="ansi_yellow",
        error="ansi_red",
        success="ansi_green",
        accent="ansi_cyan",
        foreground=plain,
        background=plain,
        surface=plain,
        panel=plain,
        boost=plain,
        variables={
            **dict.fromkeys(_PLAIN, plain),
            "input-cursor-text-style": "reverse",
            "block-cursor-text-style": "reverse",
        },
    )
