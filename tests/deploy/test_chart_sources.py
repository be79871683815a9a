"""The charts' files agree with each other, with the settings and with the release."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import jsonschema
import pytest
import yaml

import halfhitch
from halfhitch.config import SETTINGS
from harness.charts import CHARTS
from harness.places import ROOT


def _tool(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"{name}_tool", ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


tool, annotations, options = _tool("charts"), _tool("annotations"), _tool("chart_options")

NAMES = ("halfhitch", "halfhitch-sidecar")


def test_schemas_and_readmes_are_what_the_values_and_settings_make() -> None:
    found = list(tool.made())
    assert len(found) == 1 + 3 * len(NAMES)
    old = [str(path) for path, text in found if path.read_text() != text]
    assert not old, f"python tools/charts.py, for {old}"


def test_the_policies_know_what_inject_knows() -> None:
    text = annotations.PLACE.read_text()
    assert text == annotations.annotations_text(), "python tools/annotations.py"


def test_the_charts_know_the_options_that_the_program_knows() -> None:
    texts = {path.read_text() for path in options.PLACES}
    assert texts == {options.options_text()}, "python tools/chart_options.py"


@pytest.mark.parametrize("file", ["_halfhitch.tpl", "_settings.tpl"])
def test_both_charts_have_the_same_common_templates(file: str) -> None:
    texts = {(CHARTS / name / "templates" / file).read_text() for name in NAMES}
    assert len(texts) == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_chart_is_of_this_release(name: str) -> None:
    chart = yaml.safe_load((CHARTS / name / "Chart.yaml").read_text())
    values = yaml.safe_load((CHARTS / name / "values.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == values["image"]["tag"]
    assert chart["version"] == halfhitch.__version__


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_one_and_takes_the_defaults(name: str) -> None:
    schema = json.loads((CHARTS / name / "values.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    values = yaml.safe_load((CHARTS / name / "values.yaml").read_text())
    assert list(jsonschema.Draft7Validator(schema).iter_errors(values)) == []


def test_the_page_of_settings_has_every_name_of_each() -> None:
    text = tool.settings_page()
    for setting in SETTINGS:
        row = f"| `{setting.key}` | `{setting.flag}` | `{setting.env}` | `halfhitch/{setting.key}` "
        assert row in text


def test_every_setting_can_be_given() -> None:
    schema = json.loads((CHARTS / "halfhitch" / "values.schema.json").read_text())
    groups = schema["properties"]["settings"]["properties"]
    keys = {f"{group}.{name}" for group, one in groups.items() for name in one["properties"]}
    assert keys == {setting.key for setting in SETTINGS}


@pytest.mark.parametrize("name", NAMES)
def test_values_are_described(name: str) -> None:
    text = (CHARTS / name / "values.yaml").read_text()
    comments = tool.described(text)
    top = [key for key, value in yaml.safe_load(text).items() if not isinstance(value, dict)]
    assert [key for key in top if key not in comments] == []


def test_a_comment_belongs_to_the_value_below_it() -> None:
    text = "# not this\na:\n  # -- Of b,\n  # more.\n  b: 1\nc: 2\n\n# -- Of d.\nd: {}\n"
    assert tool.described(text) == {"a.b": "Of b, more.", "d": "Of d."}
