"""A list whose rows change under the cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import App

from halfhitch_cli.top.listing import Listing
from halfhitch_cli.top.pages import Column, Grid

if TYPE_CHECKING:
    from textual.app import ComposeResult

COLUMNS = (Column("Name", 12, is_right=False), Column("age", 4, is_right=True))


class One(App[None]):
    """A list and nothing else."""

    def compose(self) -> ComposeResult:
        yield Listing(id="rows")

    @property
    def listing(self) -> Listing:
        return self.query_one(Listing)

    def show(self, *names: str, marked: tuple[str, ...] = (), age: str = "1s") -> None:
        cells = [[(name, ""), (age, "red")] for name in names]
        keys = [("shop", name) for name in names]
        self.listing.show(Grid(COLUMNS, cells), keys, {("shop", name) for name in marked})

    def rows(self) -> list[str]:
        listing = self.listing
        return [
            " ".join(cell.plain for cell in listing.get_row_at(place)).strip()
            for place in range(listing.row_count)
        ]


async def test_the_cursor_stays_with_what_it_stands_on() -> None:
    async with One().run_test() as pilot:
        app: One = pilot.app  # type: ignore[assignment]
        app.show("a", "b", "c")
        await pilot.press("j", "j", "k")
        assert app.listing.keys[app.listing.here or 0] == ("shop", "b")
        app.show("x", "y", "a", "b", "c")
        await pilot.pause()
        assert app.listing.here == 3
        app.show("c", "b")
        await pilot.pause()
        assert app.listing.here == 1
        app.show("c")
        await pilot.pause()
        assert app.rows() == ["c 1s"]
        assert app.listing.here == 0
        app.show()
        await pilot.pause()
        assert (app.rows(), app.listing.here) == ([], None)


async def test_only_what_changed_is_drawn_anew() -> None:
    async with One().run_test() as pilot:
        app: One = pilot.app  # type: ignore[assignment]
        app.show("a", "b")
        drawn: list[str] = []
        update = app.listing.update_cell

        def counted(row: str, *more: object) -> None:
            drawn.append(row)
            update(row, *more)  # type: ignore[arg-type]

        app.listing.update_cell = counted  # type: ignore[assignment,method-assign]
        app.show("a", "b")
        assert drawn == []
        app.show("a", "z")
        assert drawn == ["1"]
        app.show("a", "z", marked=("a",))
        assert drawn == ["1", "0"]
        assert app.rows() == ["* a 1s", "z 1s"]


async def test_square_brackets_are_square_brackets() -> None:
    async with One().run_test() as pilot:
        app: One = pilot.app  # type: ignore[assignment]
        app.show("[red]a[/red]", "[/]", "[@click=app.quit]b[/]")
        await pilot.pause()
        assert app.rows() == ["[red]a[/red] 1s", "[/] 1s", "[@click=app.quit]b[/] 1s"]
