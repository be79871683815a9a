"""Loads a test module that lies beside another one: test folders are not packages."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def load_sibling(path: str, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(path).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
