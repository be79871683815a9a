"""What was typed becomes a value without pydantic, and a bad one gets a sentence."""

import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
import typer.core
import typer.main

from halfhitch_cli import lazy, values
from halfhitch_cli.app import main
from halfhitch_cli.table import COMMANDS

Capture = pytest.CaptureFixture[str]


class Fruit(StrEnum):
    """Choices."""

    PEAR = "pear"
    FIG = "fig"


class Probe:
    """A command of its own kinds, and what it was called with."""

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(cls=lazy.PlainCommand)(self._take)
        self.command = typer.main.get_command(app)

    def __call__(self, *arguments: str) -> dict[str, Any]:
        self.command.main(args=list(arguments), standalone_mode=False)
        return self.given

    def _take(
        self,
        names: Annotated[list[str] | None, typer.Argument()] = None,
        text: Annotated[str, typer.Option("--text")] = "t",
        count: Annotated[int, typer.Option("--count", min=1, max=9)] = 1,
        least: Annotated[int, typer.Option("--least", min=0)] = 0,
        most: Annotated[float, typer.Option("--most", max=1.5)] = 0.5,
        free: Annotated[int | None, typer.Option("--free")] = None,
        fruit: Annotated[Fruit, typer.Option("--fruit", case_sensitive=False)] = Fruit.FIG,
        exact: Annotated[Fruit, typer.Option("--exact")] = Fruit.FIG,
        path: Annotated[Path | None, typer.Option("--path")] = None,
        there: Annotated[Path | None, typer.Option("--there", exists=True)] = None,
        is_set: Annotated[bool, typer.Option("--set")] = False,
    ) -> None:
        self.given = {name: value for name, value in locals().items() if name != "self"}


@pytest.fixture
def probe() -> Probe:
    return Probe()


def test_values_are_of_their_kinds(probe: Probe) -> None:
    assert probe() == {
        "names": None, "text": "t", "count": 1, "least": 0, "most": 0.5, "free": None,
        "fruit": Fruit.FIG, "exact": Fruit.FIG, "path": None, "there": None, "is_set": False,
    }  # fmt: skip
    found = probe(
        *("a", "b", "--text", "", "--count", "9", "--least", "10", "--most", "-1e3"),
        *("--free", "-4", "--fruit", "PEAR", "--exact", "pear", "--path", "~/x", "--set"),
        *("--there", "."),
    )
    assert found == {
        "names": ["a", "b"], "text": "", "count": 9, "least": 10, "most": -1000.0, "free": -4,
        "fruit": Fruit.PEAR, "exact": Fruit.PEAR, "path": Path("~/x"), "there": Path(),
        "is_set": True,
    }  # fmt: skip
    assert type(found["count"]) is int
    assert type(found["most"]) is float


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--count", "ten"), "'ten' is not a whole number from 1 to 9."),
        (("--count", "10"), "'10' is not a whole number from 1 to 9."),
        (("--count", "0"), "'0' is not a whole number from 1 to 9."),
        (("--count", "1.5"), "'1.5' is not a whole number from 1 to 9."),
        (("--least", "-1"), "'-1' is not a whole number of at least 0."),
        (("--most", "2"), "'2' is not a number of at most 1.5."),
        (("--most", "nan"), "'nan' is not a number of at most 1.5."),
        (("--free", ""), "'' is not a whole number."),
        (("--free", "9" * 5_000), "is not a whole number."),
        (("--fruit", "plum"), "'plum' is not one of 'pear', 'fig'."),
        (("--exact", "PEAR"), "'PEAR' is not one of 'pear', 'fig'."),
        (("--there", "/no/such/file"), "does not exist"),
    ],
)
def test_a_bad_value_is_told_with_what_would_be_right(
    arguments: tuple[str, ...], said: str, probe: Probe
) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        probe(*arguments)
    assert said in caught.value.format_message()
    assert arguments[0] in caught.value.format_message()


def test_another_typer_converts_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "typer._coercion", None)
    assert values._converting() is None
    monkeypatch.undo()
    monkeypatch.setattr(values, "_converting", lambda: None)
    assert Probe()("--count", "3", "--fruit", "Pear")["count"] == 3


def test_a_typer_whose_step_is_named_otherwise_converts_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import abc

    from typer import _coercion

    class Other(abc.ABC):
        @abc.abstractmethod
        def _turn(self) -> None:
            """No name of ours."""

    monkeypatch.setattr(_coercion, "RuntimeParam", Other)
    assert values._converting() is None


def test_every_parameter_of_every_command_has_a_converter_of_ours() -> None:
    def walk(command: Any) -> list[Any]:
        values.convert_plainly(command.params)
        found = list(command.params)
        for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
            found += walk(command.get_command(None, name))
        return found

    group = lazy.LazyGroup(name="all")
    group.rows = COMMANDS
    parameters = walk(group)
    assert len(parameters) > 900
    left = {
        parameter.name
        for parameter in parameters
        if type(parameter.get_runtime_param()).__module__ != values.__name__
    }
    assert left == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ("tx", "trace", "T1"),
        ("tx", "list", "--limit", "7", "-o", "json"),
        ("tx", "commit", "T1", "--reason", "asked"),
        ("parked", "list"),
        ("status",),
        ("producers",),
        ("config", "show"),
    ],
    ids=" ".join,
)
def test_a_command_that_asks_the_door_imports_what_it_needs(arguments: tuple[str, ...]) -> None:
    given = [*arguments, "--server", "http://127.0.0.1:1"]
    program = (
        f"import sys; from halfhitch_cli.app import main; code = main({given!r});"
        "names = ('confluent_kafka', 'halfhitch.access', 'pydantic', 'rich', 'tomllib');"
        "sys.exit(', '.join(name for name in names if name in sys.modules) or code)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60
    )
    assert "No sidecar answers on http://127.0.0.1:1" in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.returncode == 1


def test_a_bad_number_of_a_real_command_is_one_line(capsys: Capture) -> None:
    assert main(["tx", "list", "--limit", "many"]) == 2
    err = capsys.readouterr().err
    assert "'many' is not a whole number from 1 to 10000." in err
    assert err.count("\n") == 1
