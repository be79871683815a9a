"""Streams of manifests: what is between the documents, and where what is wrong stands."""

from __future__ import annotations

import json

import pytest

from halfhitch_cli.manifests import Manifests
from halfhitch_cli.workloads import NoManifest

POD = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n  containers:\n  - name: a\n"


@pytest.mark.parametrize(
    "text",
    [
        POD,
        f"# above\n---\n{POD}",
        f"---\n{POD}---\n# nothing\n---\n{POD}",
        POD.replace("  containers:\n  - name: a", "  containers:\n    - name: a  # why"),
        POD + "  # at the end\n",
        f"{POD}---\napiVersion: v1\nkind: ConfigMap\ndata:\n  x: |\n    ---\n    y\n",
    ],
)
def test_what_nobody_changes_stays_to_the_letter(text: str) -> None:
    assert Manifests("x.yaml", text).text() == text


def test_the_pods_of_a_list_are_found() -> None:
    listed = "apiVersion: v1\nkind: List\nitems:\n- " + POD.replace("\n", "\n  ").rstrip() + "\n"
    (found,) = Manifests("x.yaml", listed).workloads()
    assert found.where == "x.yaml, item 1, Pod/p"
    assert not found.ends
    assert list(Manifests("x.yaml", "apiVersion: v1\nkind: PodList\nitems:\n").workloads()) == []


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_a_pod_that_is_not_started_anew_is_there_to_end(policy: str) -> None:
    (found,) = Manifests("x.yaml", f"{POD}  restartPolicy: {policy}\n").workloads()
    assert found.ends


def test_the_place_is_told() -> None:
    with pytest.raises(NoManifest, match=r"x\.yaml, document 2: it is no manifest"):
        Manifests("x.yaml", f"{POD}---\nfoo: bar\n")
    with pytest.raises(NoManifest, match=r"x\.yaml, item 2: it is no manifest"):
        Manifests(
            "x.yaml", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: A}\n- 3\n"
        )


def test_a_key_that_is_there_twice_is_no_yaml() -> None:
    with pytest.raises(NoManifest, match="it is not YAML"):
        Manifests("x.yaml", POD + "kind: Pod\n")


@pytest.mark.parametrize(
    "text",
    [
        '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"caf\\u00e9 \\ud83d\\ude00"}}\n',
        '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "caf\u00e9"}}\n',
        '{\n\t"apiVersion": "v1",\n\t"kind": "Pod"\n}\n',
        "---\n".join(['{\n  "apiVersion": "v1",\n  "kind": "Pod"\n}\n'] * 2),
    ],
)
def test_json_came_out_with_keys_that_kubectl_cannot_read(text: str) -> None:
    assert Manifests("x.json", text).text() == text
    changed = Manifests("x.json", "\ufeff" + text.partition("---")[0])
    for one in changed.workloads():
        one.document["new"] = {"halfhitch/sidecar": "native"}
    assert json.loads(changed.text())["new"] == {"halfhitch/sidecar": "native"}


def test_a_key_that_is_there_twice_in_json_is_told() -> None:
    with pytest.raises(NoManifest, match="it is not YAML"):
        Manifests("x.json", '{"apiVersion": "v1", "kind": "Pod", "kind": "Pod"}')


CRLF = POD.replace("\n", "\r\n")


@pytest.mark.parametrize(
    "text",
    [CRLF, f"---\r\n{CRLF}", f"# a\r\n---\r\n{CRLF}---\r\n{CRLF}", '{\r\n  "kind": "Pod"\r\n}\r\n'],
)
def test_lines_lost_their_ends(text: str) -> None:
    text = text.replace('"kind"', '"apiVersion": "v1",\r\n  "kind"')
    assert Manifests("x.yaml", text).text() == text
    changed = Manifests("x.yaml", text)
    for one in changed.workloads():
        one.document["metadata"] = {"name": "new"}
    written = changed.text()
    assert written.count("\n") == written.count("\r\n") > 0
    assert "new" in written


def test_a_text_of_several_lines_is_the_same_with_other_ends() -> None:
    text = f"{POD}    args:\n    - |\n      one\n      two\n".replace("\n", "\r\n")
    found = Manifests("x.yaml", text)
    (one,) = found.objects()
    assert one["spec"]["containers"][0]["args"] == ["one\ntwo\n"]
    assert found.text() == text


@pytest.mark.parametrize("between", ["\n", "", "\n\n  ", "\r\n"])
def test_several_objects_of_json_without_a_divider_were_refused(between: str) -> None:
    one, other = (f'{{"apiVersion":"v1","kind":"{kind}"}}' for kind in ("Pod", "Service"))
    found = Manifests("x.json", f"{one}{between}{other}\n")
    assert [each["kind"] for each in found.objects()] == ["Pod", "Service"]
    assert [each.where for each in found.workloads()] == ["x.json, document 1, Pod/?"]
    (workload,) = found.workloads()
    workload.document["new"] = 1
    first, second = found.text().splitlines()
    assert json.loads(first) == {"apiVersion": "v1", "kind": "Pod", "new": 1}
    assert second.strip() == other


def test_what_calls_itself_a_list_and_has_other_items_was_refused() -> None:
    text = "apiVersion: example.org/v1\nkind: AllowList\nitems:\n- 10.0.0.0/8\n"
    assert Manifests("x.yaml", text).text() == text
    assert Manifests("x.yaml", text.replace("items:\n- 10.0.0.0/8", "items: 3")).text()
