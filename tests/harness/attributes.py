"""What an object carries, whether its class is interpreted (with slots or without) or compiled."""

from __future__ import annotations

from typing import Any


def attributes(value: object) -> dict[str, Any]:
    """By name; what is not set is left out."""
    kind = type(value)
    names = getattr(kind, "__mypyc_attrs__", None) or getattr(kind, "__slots__", None)
    if names is None:
        return dict(vars(value))
    return {name: getattr(value, name) for name in names if hasattr(value, name)}
