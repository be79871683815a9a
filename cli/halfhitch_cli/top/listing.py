"""A list whose rows change under the cursor, and stay under it.

Owns `Listing`, a DataTable that is told what to show. Invariants: cells are Text, never str, which
a DataTable would read as markup; what has not changed is not drawn anew; the cursor stays with what
it stands on for as long as that is in the list.
"""

from collections.abc import Collection, Sequence
from typing import Final

from rich.text import Text
from textual.binding import Binding
from textual.widgets import DataTable
from textual.widgets.data_table import ColumnKey

from halfhitch_cli.top.pages import Column, Grid

Key = tuple[str, str]
_MARK: Final = "*"


class Listing(DataTable[Text]):
    """Rows by their keys."""

    BINDINGS = [  # noqa: RUF012 - textual's form
        Binding("j", "cursor_down", "Next row", show=False),
        Binding("k", "cursor_up", "Previous row", show=False),
    ]

    def __init__(self, *, id: str) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id, cursor_type="row", zebra_stripes=False, cell_padding=1)
        self.keys: list[Key] = []
        self._columns_shown: list[Column] = []
        self._cells: list[list[tuple[str, str]]] = []

    @property
    def here(self) -> int | None:
        """The row under the cursor."""
        return self.cursor_row if 0 <= self.cursor_row < len(self.keys) else None

    def show(self, found: Grid, keys: Sequence[Key], marked: Collection[Key]) -> None:
        """These rows, in this order; `keys` says which is which."""
        here = self.here
        stood = None if here is None else self.keys[here]
        columns = [Column("", 1, is_right=False), *found.columns]
        cells = [
            [(_MARK if key in marked else "", "bold"), *row]
            for key, row in zip(keys, found.cells, strict=True)
        ]
        if columns != self._columns_shown:
            self.clear(columns=True)
            self._cells = []
            for column in columns:
                self.add_column(_text(column.name, "", column), width=column.width)
            self._columns_shown = columns
        self._fill(columns, cells)
        self.keys, self._cells = list(keys), cells
        if stood is not None and stood in self.keys and self.keys.index(stood) != self.cursor_row:
            self.move_cursor(row=self.keys.index(stood), animate=False)

    def _fill(self, columns: Sequence[Column], cells: list[list[tuple[str, str]]]) -> None:
        for place, (before, row) in enumerate(zip(self._cells, cells, strict=False)):
            for number, (was, cell) in enumerate(zip(before, row, strict=True)):
                if was != cell:
                    self.update_cell(
                        str(place), self._column(number), _text(*cell, columns[number])
                    )
        for place in range(len(self._cells), len(cells)):
            row = cells[place]
            texts = [_text(*cell, columns[number]) for number, cell in enumerate(row)]
            self.add_row(*texts, key=str(place))
        for place in range(len(cells), len(self._cells)):
            self.remove_row(str(place))

    def _column(self, number: int) -> ColumnKey:
        return self.ordered_columns[number].key


def _text(told: str, style: str, column: Column) -> Text:
    return Text(told, style, justify="right" if column.is_right else "left", no_wrap=True)
