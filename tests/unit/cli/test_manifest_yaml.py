"""Manifests as YAML: texts are texts to every reader, and no change of one place is one of two."""

from __future__ import annotations

import io
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from halfhitch_cli.manifest_yaml import reader
from halfhitch_cli.manifests import Manifests
from halfhitch_cli.workloads import NoManifest

#: Each is something else than a text to a reader of YAML 1.1 or 1.2, to PyYAML or to Go's.
NO_TEXTS = (
    *("on", "off", "yes", "no", "y", "n", "Y", "No", "OFF", "true", "False", "null", "NULL", "~"),
    *("", "1", "-1", "+1", "1_000", "0o17", "017", "0x1F", "0b1", "1e3", "1.5", ".5", "1.", ".inf"),
    *(
        "-.INF",
        ".nan",
        "12:30",
        "12:30:45",
        "1:2.5",
        "2026-11-23",
        "2026-11-23T12:00:00Z",
        "=",
        "<<",
    ),
    *("===", "-", "- a", "? a", "a: b", "a #b", "#a", "&a", "*a", "!a", "|", ">", "@a", "`a", "%a"),
    *(
        "[]",
        "{}",
        "a,b",
        " a",
        "a ",
        "'",
        '"',
        "---",
        "...",
        "a\nb",
        "\t",
        "\u2028",
        "é",
        "\U0001f40c",
    ),
)
POD = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n  containers:\n  - name: a\n"


def by_all(text: str) -> list[Any]:
    """What readers make of it: PyYAML and ruamel by YAML 1.1, ruamel by YAML 1.2."""
    old, new = YAML(typ="safe", pure=True), YAML(typ="safe", pure=True)
    old.version = (1, 1)
    return [yaml.safe_load(text), old.load(text), new.load(text)]


def with_texts(texts: dict[str, str]) -> dict[str, Any]:
    manifests = Manifests("x.yaml", POD)
    (workload,) = manifests.workloads()
    workload.template["metadata"]["annotations"] = texts
    workload.template["spec"]["containers"][0]["args"] = list(texts.values())
    found = by_all(manifests.text())
    assert found == [found[0]] * 3
    pod: dict[str, Any] = found[0]
    return pod


@pytest.mark.parametrize("text", NO_TEXTS)
def test_a_text_that_old_yaml_takes_for_something_else_is_quoted(text: str) -> None:
    pod = with_texts({"a": text, text: "b"})
    assert pod["metadata"]["annotations"] == {"a": text, text: "b"}
    assert pod["spec"]["containers"][0]["args"] == [text, "b"]


_ALPHABET = st.characters(exclude_categories=["Cs"], exclude_characters="\ufeff\x85")
#: A machine that is busy with other things takes longer than 200 ms now and then.
_SETTINGS = settings(deadline=None, print_blob=True)
_TEXTS = st.one_of(
    st.text(_ALPHABET),
    st.text("0123456789_+-.:eExoObBxaAfFtTzZ "),
    st.sampled_from(NO_TEXTS).flatmap(
        lambda text: st.sampled_from([text.lower(), text.upper(), text.capitalize(), text + "\n"])
    ),
)


@_SETTINGS
@given(st.dictionaries(_TEXTS, _TEXTS, max_size=5))
def test_whatever_goes_in_as_a_text_comes_out_as_one(texts: dict[str, str]) -> None:
    pod = with_texts(texts)
    assert pod["metadata"]["annotations"] == texts
    assert pod["spec"]["containers"][0]["args"] == list(texts.values())


@_SETTINGS
@given(st.dictionaries(_TEXTS, _TEXTS, min_size=1, max_size=5))
def test_texts_of_a_manifest_that_pyyaml_wrote_are_the_same_behind_it(
    texts: dict[str, str],
) -> None:
    pod = {**yaml.safe_load(POD), "x": texts, "y": list(texts.values())}
    for text in (yaml.safe_dump(pod), yaml.safe_dump(pod, default_flow_style=True)):
        manifests = Manifests("x.yaml", text)
        assert yaml.safe_load(manifests.text()) == pod


@pytest.mark.parametrize("plain", ["off", "yes", "0440", "0o17", "1_000", "12:30:45", "2026-11-23"])
def test_what_a_file_has_unquoted_stays_so(plain: str) -> None:
    text = POD + f"    x: {plain}\n"
    assert Manifests("x.yaml", text).text() == text


@pytest.mark.parametrize(
    "text", ["03E8", "0E81", "08_", "+_2", "._9", "-_", "-0e18", "0923_", "+080"]
)
def test_a_commit_s_number_became_another_number(text: str) -> None:
    """To kubectl, and to whoever wrote it, it is a text; to ruamel it is a number."""
    for manifest in (POD + f"    x: {text}\n", POD + f"    {text}: a\n"):
        assert Manifests("x.yaml", manifest).text() == manifest


def test_a_plain_text_that_is_replaced_is_quoted_where_it_must_be() -> None:
    yaml_ = reader(is_indented=False)
    document = yaml_.load("a: sales\nb: &b sales\nc: *b\n")
    document["a"], document["b"] = "no", "off"
    stream = io.StringIO()
    yaml_.dump(document, stream)
    assert yaml.safe_load(stream.getvalue()) == {"a": "no", "b": "off", "c": "sales"}


# -- aliases -------------------------------------------------------------------------------------

SHARED = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: shop
  labels: &labels   # who
    app: shop   # the shop
    tier: &tier web
spec:
  selector:
    # the same
    matchLabels: *labels
  template:
    metadata:
      labels: *labels
    spec:
      containers:
      - &first
        name: a
        env: &env
        - {name: TIER, value: *tier}
        # nothing more
      - <<: *first
        name: b
      - name: c
        env: *env
"""


def test_a_change_of_what_an_alias_stands_for_is_none_of_the_other_places() -> None:
    manifests = Manifests("x.yaml", SHARED)
    (workload,) = manifests.workloads()
    before = yaml.safe_load(manifests.text())
    assert before == yaml.safe_load(SHARED)
    workload.template["metadata"]["labels"]["halfhitch/sidecar"] = "native"
    one, two, three = workload.template["spec"]["containers"]
    one["env"].append({"name": "A", "value": "1"})
    two["env"].append({"name": "B", "value": "2"})
    three["env"].clear()
    text = manifests.text()
    after = yaml.safe_load(text)
    assert after["metadata"] == before["metadata"]
    assert after["spec"]["selector"] == before["spec"]["selector"]
    added = [
        [row["name"] for row in c["env"]] for c in after["spec"]["template"]["spec"]["containers"]
    ]
    assert added == [["TIER", "A"], ["TIER", "B"], []]
    for comment in ("# who", "# the shop", "# the same", "# nothing more"):
        assert text.count(comment) == 1


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("x: " + "[" * 3_000 + "]" * 3_000 + "\n", "nested too deeply"),
        (
            "x0: &x0 [a]\n"
            + "".join(f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 9)}]\n" for n in range(1, 9)),
            "its aliases stand for more than 100,000",
        ),
    ],
)
def test_aliases_that_cannot_be_written_out_are_told(more: str, says: str) -> None:
    with pytest.raises(NoManifest, match=says):
        Manifests("x.yaml", POD + more)


@pytest.mark.parametrize(
    "time",
    [
        "2024-01-05T10:00:00.1234567Z",
        "2024-01-05T10:00:00.100Z",
        "2024-01-05T10:00:00.5Z",
        "2024-01-05t10:00:00z",
        "2024-01-05 10:00:00",
        "2024-01-05T10:00:00+01:00",
        "2024-1-5",
        "2024-01-05",
        "&t 2024-01-05T10:00:00.1234567Z",
    ],
)
def test_a_time_lost_what_is_below_a_microsecond(time: str) -> None:
    text = f"{POD}x: {time}\n"
    manifests = Manifests("x.yaml", text)
    tuple(manifests.workloads())
    assert f"x: {time}\n" in manifests.text()
