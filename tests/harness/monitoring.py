"""The sources of alerts and dashboards, tools/monitoring, as tests want them."""

from __future__ import annotations

import importlib
import importlib.util
import sys

from harness.places import ROOT

_FOLDER = str(ROOT / "tools" / "monitoring")
if _FOLDER not in sys.path:
    sys.path.insert(0, _FOLDER)

rules = importlib.import_module("rules")
grafana = importlib.import_module("grafana")
panels = importlib.import_module("panels")

_SPEC = importlib.util.spec_from_file_location("monitoring_files", f"{_FOLDER}/__main__.py")
assert _SPEC is not None
files = importlib.util.module_from_spec(_SPEC)
assert _SPEC.loader is not None
_SPEC.loader.exec_module(files)
