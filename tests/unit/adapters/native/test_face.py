"""A build of halfhitch-native that is not this sidecar's is told, and is as good as none."""

from __future__ import annotations

import inspect
import logging
import sys
import types
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest

import halfhitch
from halfhitch.adapters.native import carrier, face
from halfhitch.doors.http import native as http_values
from halfhitch.doors.rocketmq import native as values
from halfhitch_cli.speed import version_text
from harness.native import native, needs_native

if TYPE_CHECKING:
    from pathlib import Path


def kind_of(name: str, made_with: tuple[str, ...], methods: Any) -> type:
    asked = {
        name: eval(f"lambda self{''.join(f', a{n}' for n in range(count))}: None")
        for name, count in methods.items()
    }
    return type(name, (), {"__init__": eval(f"lambda self, {', '.join(made_with)}: None"), **asked})


def made(**more: Any) -> types.ModuleType:
    """A module with the right face, but for what is given."""
    module = types.ModuleType(face.MODULE)
    module.__file__ = "/nowhere/halfhitch_native.so"
    vars(module)["Native"] = kind_of("Native", face.MADE_WITH, face.METHODS)
    vars(module)["HttpNative"] = kind_of("HttpNative", face.HTTP_MADE_WITH, face.HTTP_METHODS)
    made_with, methods = face.OWNER_MADE_WITH, face.OWNER_METHODS
    vars(module)["LogConsumer"] = kind_of("LogConsumer", made_with, methods)
    vars(module)["forward"] = lambda library, client, payloads: (library, client, payloads)
    for name, names in {**face.VALUES, **face.HTTP_VALUES, **face.OWNER_VALUES}.items():
        vars(module)[name] = type(name, (), dict.fromkeys(names))
    vars(module).update(more)
    return module


def renamed() -> types.ModuleType:
    """As builds were before `lend` and `take_back` had their names."""
    module = made()
    kind: Any = vars(module)["Native"]
    kind.adopt, kind.release = kind.lend, kind.take_back
    del kind.lend, kind.take_back
    return module


def test_the_face_is_what_the_door_asks() -> None:
    asked = {
        name: len(inspect.signature(each).parameters) - 1
        for name, each in vars(values.Native).items()
        if not name.startswith("_")
    }
    assert dict(face.METHODS) == asked
    kinds = {
        name: tuple(field.name for field in fields(each))
        for name, each in vars(values).items()
        if isinstance(each, type) and hasattr(each, "__dataclass_fields__")
    }
    assert dict(face.VALUES) == kinds


def test_the_face_is_what_the_data_door_asks() -> None:
    asked = {
        name: len(inspect.signature(each).parameters) - 1
        for name, each in vars(http_values.Native).items()
        if not name.startswith("_")
    }
    assert dict(face.HTTP_METHODS) == asked
    for name, names in face.HTTP_VALUES.items():
        kind = vars(http_values)[name.removeprefix("Http")]
        assert tuple(field.name for field in fields(kind)) == names


@needs_native
def test_the_build_that_is_here_is_made_as_the_door_makes_it() -> None:
    """A build that is older than the sources is built anew by `make native`."""
    assert face._other_names(native) is None
    assert face.has_http(native)


@pytest.mark.parametrize("kind", [int, None])
def test_a_build_from_before_the_data_door_went_natively_is_good_for_the_other_one(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = made(HttpNative=kind)
    monkeypatch.setitem(sys.modules, face.MODULE, module)
    assert carrier.load() is vars(module)["Native"]
    assert carrier.load_http() is None
    monkeypatch.setitem(sys.modules, face.MODULE, whole := made())
    assert carrier.load_http() is vars(whole)["HttpNative"]
    monkeypatch.setitem(sys.modules, face.MODULE, renamed())
    assert carrier.load_http() is None


def test_one_that_fits_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    module = made()
    monkeypatch.setitem(sys.modules, face.MODULE, module)
    assert face.installed() == (module, None)
    assert carrier.load() is vars(module)["Native"]


def test_none_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        face.importlib,
        "import_module",
        lambda name: (_ for _ in ()).throw(ModuleNotFoundError(name=name)),
    )
    assert face.installed() == (None, None)


@pytest.mark.parametrize("build", [renamed, lambda: made(Native=int), lambda: made(Fed=object)])
def test_an_older_build_met_renamed_functions_with_an_attribute_error(
    build: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, face.MODULE, build())
    with caplog.at_level(logging.WARNING):
        assert carrier.load() is None
    (line,) = caplog.messages
    assert "interpreted way" in line
    assert "make native" in line
    assert "halfhitch[speed]" in line


def test_another_version_is_told_by_both_numbers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Other:
        version = "0.0.9"

        def locate_file(self, _: str) -> Path:
            return tmp_path

    monkeypatch.setattr(face.metadata, "distribution", lambda _: Other())
    module = made(__file__=str(tmp_path / "halfhitch_native.so"))
    monkeypatch.setitem(sys.modules, face.MODULE, module)
    found, told = face.installed()
    assert found is None
    assert told is not None
    assert "0.0.9" in told
    assert halfhitch.__version__ in told
    vars(module)["__file__"] = "/another/halfhitch_native.so"  # that of a clone, first on the path
    assert face.installed() == (module, None)


def test_version_and_doctor_say_that_it_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from halfhitch_cli.commands.doctor import _speed

    monkeypatch.setitem(sys.modules, face.MODULE, renamed())
    monkeypatch.setattr(halfhitch, "is_native", lambda: True)
    first, *others = version_text().splitlines()
    assert "native" not in first
    assert any("is not used" in line and "make native" in line for line in others)
    finding = _speed()
    assert finding.severity == "warn"
    assert "is not used" in finding.sentence
