"""What was typed becomes a value without pydantic, whose import is a third of a command's start.

typer converts by pydantic since 0.26. It asks each parameter for its converter, and makes one only
where there is none yet: `convert_plainly` gives those that are simple one of their own. Invariants:
a kind that is not known here is left to typer, and so is everything where typer is another than
these were made for, which is slower and nothing else; a bad value gets a sentence that says what
would be right.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args, get_origin

import typer

_NAMES: Final = {int: "a whole number", float: "a number"}


def convert_plainly(parameters: Iterable[Any]) -> None:
    """Give these parameters of a command converters of ours, where there is one."""
    made = _converting()
    if made is None:
        return
    for parameter in parameters:
        descriptor = getattr(parameter, "type_descriptor", None)
        if descriptor is None or getattr(parameter, "_runtime_param", parameter) is not None:
            continue
        convert = converter(descriptor.annotation, descriptor.parameter_info)
        if convert is not None:
            parameter._runtime_param = made(  # noqa: SLF001 - see the head
                descriptor.parameter_info, descriptor.annotation, convert
            )


def converter(annotation: Any, info: Any) -> Callable[[Any], Any] | None:
    """What makes a value of this kind, or raises BadParameter; None: typer is to do it."""
    if info.parser is not None:
        return None
    if get_origin(annotation) is list:
        each = converter(get_args(annotation)[0], info)
        return None if each is None else lambda values: [each(value) for value in values]
    if annotation is str:
        return str
    if annotation is bool:
        return _flag
    if annotation in (int, float):
        return partial(_number, annotation, info.min, info.max)
    if not isinstance(annotation, type):
        return None
    if issubclass(annotation, Enum):
        return partial(_choice, tuple(annotation), is_exact=info.case_sensitive)
    # An option that asks more of a path than that it is one is typer's.
    return annotation if issubclass(annotation, Path) and not _looks_further(info) else None


def _looks_further(info: Any) -> bool:
    return any((info.exists, info.resolve_path, info.path_type, info.allow_dash)) or not (
        info.file_okay and info.dir_okay
    )


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise typer.BadParameter(f"{value!r} is not a flag's value.")  # only variables give texts


def _number(kind: type[int | float], low: float | None, high: float | None, value: Any) -> Any:
    try:
        found = kind(value)
    except (ValueError, OverflowError):
        found = None
    # Put so that it is false of NaN.
    if found is not None and (low is None or found >= low) and (high is None or found <= high):
        return found
    if low is not None and high is not None:
        bounds = f" from {low:g} to {high:g}"
    else:
        bounds = "" if low is None else f" of at least {low:g}"
        bounds += "" if high is None else f" of at most {high:g}"
    raise typer.BadParameter(f"{value!r} is not {_NAMES[kind]}{bounds}.")


def _choice(choices: Sequence[Enum], value: Any, *, is_exact: bool) -> Any:
    if value in choices and isinstance(value, Enum):
        return value
    for choice in choices:
        name = str(choice.value)
        if value == name or (not is_exact and str(value).casefold() == name.casefold()):
            return choice
    names = ", ".join(repr(str(choice.value)) for choice in choices)
    raise typer.BadParameter(f"{value!r} is not one of {names}.")


def _converting() -> Callable[..., Any] | None:
    """A maker of what typer asks for a value; None where typer is not as it was."""
    try:
        from typer._coercion import RuntimeParam
    except ImportError:
        return None

    class Plain(RuntimeParam):
        def __init__(self, info: Any, annotation: Any, convert: Callable[[Any], Any]) -> None:
            super().__init__(info, annotation)
            # The base is a frozen dataclass.
            object.__setattr__(self, "convert", convert)

        def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:
            try:
                return self.convert(value)  # type: ignore[attr-defined]
            except typer.BadParameter as error:
                error.param, error.ctx = param, ctx
                raise

    # Its one step was named otherwise: then the class cannot be made.
    return None if getattr(Plain, "__abstractmethods__", None) else Plain
