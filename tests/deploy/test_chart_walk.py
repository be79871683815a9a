"""What the charts render the program takes, whatever the values: they cannot disagree."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import helm_python
import pytest

from harness.chart_starts import Starts
from harness.chart_values import CHART, values
from harness.chart_walk import PASSWORD, Walk
from harness.charts import merged, parent_chart, pod_specs, rendered, wrong_objects
from harness.injected import by_policy

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from harness.charts import Object

_STEPS, _STEPS_OF_THE_LIBRARY = 40, 30
#: How a sentence of the charts' own, or of a schema, begins.
_TOLD = ("execution error at (", "values don't meet the specifications of the schema")


@pytest.fixture(scope="module")
def starts(tmp_path_factory: pytest.TempPathFactory) -> Starts:
    return Starts(tmp_path_factory.mktemp("starts"))


def trouble(chart: Path, given: Object, starts: Starts) -> str | None:
    """What is wrong with what comes of these values; None where they are refused in good words."""
    try:
        objects = rendered(chart, given)
    except helm_python.HelmError as error:
        is_told = any(words in str(error) for words in _TOLD) and PASSWORD not in str(error)
        return None if is_told else f"it stumbled, or told a password: {error}"
    if PASSWORD in json.dumps(objects):
        return "a password is in what was rendered"
    pods = [*pod_specs(objects)]
    if any(one["kind"] == "MutatingAdmissionPolicy" for one in objects):
        pods.append(("a pod that asked", by_policy(objects)))
    for where, pod in pods:
        for one in (*(pod.get("initContainers") or []), *pod["containers"]):
            refusal = starts.refusal(pod, one) if one["name"] == "halfhitch" else ""
            if refusal:
                return f"{where} would not start: {refusal}"
    return "; ".join(wrong_objects(objects, "1.36"))


def walked(chart: Path, walk: Walk, base: Object, starts: Starts, steps: int) -> tuple[int, str]:
    """How many values were rendered, up to the first with which something is wrong, and what.

    More steps than these where chance has most of them refused.
    """
    count = 0
    for step in range(4 * steps):
        if step >= steps and count > steps // 4:
            break
        change = walk.values()
        found = trouble(chart, merged(base, change), starts)
        if found:
            return count, f"{json.dumps(change)}\n{found}"
        count += found is not None
    return count, ""


@pytest.mark.parametrize(
    "base",
    ["everything", *(pytest.param(name, marks=pytest.mark.long) for name in ("mesh", "loopback"))],
)
def test_the_program_starts_with_whatever_the_chart_renders(
    base: str, rng: random.Random, starts: Starts
) -> None:
    count, wrong = walked(CHART, Walk("halfhitch", rng), values(base), starts, _STEPS)
    assert wrong == ""
    assert count > _STEPS // 4, "most were refused, so that little was tried"


def test_the_program_starts_with_whatever_the_library_renders(
    rng: random.Random, starts: Starts, tmp_path: Path
) -> None:
    chart, walk = parent_chart(tmp_path), Walk("halfhitch-sidecar", rng)
    for _ in range(_STEPS_OF_THE_LIBRARY):
        change = {"halfhitch-sidecar": walk.values()}
        assert not trouble(chart, change, starts), json.dumps(change)


def test_a_chart_that_checks_no_settings_is_caught(
    rng: random.Random, starts: Starts, tmp_path: Path
) -> None:
    """The walk can be red."""
    chart = tmp_path / "halfhitch"
    shutil.copytree(CHART, chart)
    path = chart / "templates" / "_settings.tpl"
    text = path.read_text().replace('"halfhitch.checkSettings"', '"halfhitch.idleSettings"')
    path.write_text(text + '{{ define "halfhitch.checkSettings" }}{{ end }}\n')
    _, wrong = walked(chart, Walk("halfhitch", rng), values("mesh"), starts, 200)
    assert "would not start" in wrong
