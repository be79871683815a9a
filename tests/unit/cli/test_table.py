"""The list of commands and how it is shown."""

import importlib

import pytest

from halfhitch_cli.table import COMMANDS, CommandRow, root_help

ROWS = (
    CommandRow("dev", "x.dev", "Here, now.", "Run"),
    CommandRow("status", "x.status", "Ask.", "Look"),
    CommandRow("serve", "x.serve", "Run it.", "Run"),
)


def test_commands_stand_under_their_headings_in_the_order_of_the_table() -> None:
    text = root_help(ROWS)
    assert text.index("\nRun:") < text.index("  dev ") < text.index("  serve")
    assert text.index("  serve") < text.index("\nLook:") < text.index("  status")
    assert text.index("\nLook:") < text.index("\nOptions:")


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_every_command_is_where_the_table_says(row: CommandRow) -> None:
    assert importlib.import_module(row.module).app is not None


def test_no_name_stands_there_twice() -> None:
    assert len({row.name for row in COMMANDS}) == len(COMMANDS)
