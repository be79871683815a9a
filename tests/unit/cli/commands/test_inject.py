"""halfhitch inject: every kind that makes pods, twice as once, and what is no manifest."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from halfhitch_cli.app import ERROR, OK, USAGE, main
from harness.charts import KUBERNETES, pod_specs, unrestricted, wrong_objects
from harness.manifests import DAEMON, DEPLOYMENT, JOB, MANIFESTS, POD, SERVICE, STATEFUL

if TYPE_CHECKING:
    from pathlib import Path

FLAGS = ("--kafka-bootstrap", "kafka:9092", "--handle-key-file", "secret:halfhitch/handle-key")


@pytest.fixture
def inject(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Manifests and flags in; exit code, output and complaints out."""

    def run(text: str, *flags: str, only: bool = False) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        code = main(["inject", *(() if only else FLAGS), *flags])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def objects(text: str) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(text) if one is not None]


def pods(text: str) -> list[dict[str, Any]]:
    return [pod for _, pod in pod_specs(objects(text))]


@pytest.mark.parametrize("name", MANIFESTS)
def test_every_kind_gets_a_native_sidecar_and_twice_is_once(name: str, inject: Any) -> None:
    code, out, err = inject(MANIFESTS[name])
    assert (code, "injected" in err) == (OK, True)
    found = pods(out)
    assert found
    for pod in found:
        sidecar = pod["initContainers"][0]
        assert (sidecar["name"], sidecar["restartPolicy"]) == ("halfhitch", "Always")
        assert {one["env"][-1]["name"] for one in pod["containers"]} == {"HALFHITCH_ADDRESS"}
    assert [list(unrestricted("x", pod, only="halfhitch")) for pod in found] == [[]] * len(found)
    for version in KUBERNETES:
        flat = [one for o in objects(out) for one in (o["items"] if o["kind"] == "List" else [o])]
        assert wrong_objects(flat, version) == []
    assert inject(out)[:2] == (OK, out)


def test_comments_order_quotes_and_indentation_stay(inject: Any) -> None:
    _, out, _ = inject(DEPLOYMENT)
    kept = [line for line in DEPLOYMENT.splitlines() if line not in out.splitlines()]
    assert kept == ["      labels: {app: shop}"], "the label of the injected is there, too"
    assert out.index("# The one that sells.") < out.index("name: proxy")


def test_a_document_without_pods_keeps_its_bytes(inject: Any) -> None:
    _, out, _ = inject(f"{SERVICE}---\n{POD}")
    assert out.startswith(SERVICE + "---\n")


def test_the_socket_is_for_pods_whose_containers_share_a_group(inject: Any) -> None:
    (with_group,) = pods(inject(STATEFUL)[1])
    (without,) = pods(inject(DAEMON)[1])
    (app,) = with_group["containers"]
    assert app["env"][-1]["value"] == "unix:/run/halfhitch/data.sock"
    assert {"name": "halfhitch-socket", "mountPath": "/run/halfhitch"} in app["volumeMounts"]
    assert without["containers"][0]["env"][-1]["value"] == "http://127.0.0.1:8340"
    assert "volumeMounts" not in without["containers"][0]
    (asked,) = pods(inject(DAEMON, "--transport", "socket")[1])
    assert asked["containers"][0]["env"][-1]["value"].startswith("unix:")


def test_containers_that_prepare_the_way_come_after_the_sidecar(inject: Any) -> None:
    (pod,) = pods(inject(STATEFUL)[1])
    assert [one["name"] for one in pod["initContainers"]] == ["halfhitch", "migrate"]
    assert pod["initContainers"][1]["env"][0]["name"] == "HALFHITCH_ADDRESS"


def test_from_native_to_an_ordinary_container_and_back(inject: Any) -> None:
    _, native, _ = inject(DEPLOYMENT)
    _, ordinary, _ = inject(native, "--mode", "container")
    (pod,) = pods(ordinary)
    assert [one["name"] for one in pod["containers"]] == ["shop", "proxy", "halfhitch"]
    assert not pod["initContainers"]
    (pod,) = pods(inject(ordinary)[1])
    assert [one["name"] for one in pod["containers"]] == ["shop", "proxy"]


def test_annotations_of_a_pod_win_over_flags(inject: Any) -> None:
    own = DEPLOYMENT.replace(
        "labels: {app: shop}\n    spec",
        'annotations: {halfhitch/checks.interval_s: "30"}\n      labels: {app: shop}\n    spec',
    )
    _, out, _ = inject(own, "--checks-interval-s", "90", "--log-format", "json")
    (pod,) = pods(out)
    environment = {one["name"]: one.get("value") for one in pod["initContainers"][0]["env"]}
    assert float(environment["HALFHITCH_CHECKS_INTERVAL_S"]) == 30
    assert environment["HALFHITCH_LOG_FORMAT"] == "json"


def test_a_pod_that_wants_none_gets_none(inject: Any) -> None:
    refusing = POD.replace("{name: one}", "{name: one, annotations: {halfhitch/inject: 'false'}}")
    _, out, _ = inject(f"{refusing}---\n{JOB}")
    assert "initContainers" not in pods(out)[0]


def test_namespace_labels_and_annotations(inject: Any) -> None:
    given = ("--namespace", "shop", "--label", "team=sales", "--annotation", "a/b=c")
    _, out, _ = inject(f"{SERVICE}---\n{DEPLOYMENT}", *given)
    assert [one["metadata"]["namespace"] for one in objects(out)] == ["shop", "shop"]
    metadata = objects(out)[1]["spec"]["template"]["metadata"]
    assert metadata["labels"]["team"] == "sales"
    assert metadata["annotations"] == {"a/b": "c"}


ANCHORED = """\
apiVersion: v1
kind: List
items:
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: one, labels: &labels {app: one}}
  spec:
    selector: {matchLabels: *labels}
    template: {metadata: {labels: *labels}, spec: &spec {containers: [{name: x, image: x}]}}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: two}
  spec:
    selector: {matchLabels: *labels}
    template:
      metadata: {labels: *labels, annotations: {halfhitch/inject: "false"}}
      spec: *spec
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: three}
  spec:
    selector: {matchLabels: *labels}
    template:
      metadata: {labels: *labels, annotations: {halfhitch/transport: socket}}
      spec: {<<: *spec}
"""


def test_labels_and_pods_behind_an_alias_change_where_they_are_injected_and_nowhere_else(
    inject: Any,
) -> None:
    code, out, err = inject(ANCHORED, "--label", "team=sales")
    assert (code, err) == (OK, "halfhitch: 2 injected.\n")
    deployments = objects(out)[0]["items"]
    for one in deployments:
        assert one["spec"]["selector"] == {"matchLabels": {"app": "one"}}
    one, two, three = (one["spec"]["template"] for one in deployments)
    assert deployments[0]["metadata"]["labels"] == {"app": "one"}
    assert one["metadata"]["labels"]["halfhitch/sidecar"] == "native"
    assert two["metadata"]["labels"] == {"app": "one", "team": "sales"}
    assert two["spec"] == {"containers": [{"name": "x", "image": "x"}]}
    addresses = [pod["spec"]["containers"][0]["env"][0]["value"] for pod in (one, three)]
    assert addresses == ["http://127.0.0.1:8340", "unix:/run/halfhitch/data.sock"]
    assert inject(out, "--label", "team=sales")[:2] == (OK, out)


def test_values_that_old_yaml_reads_as_booleans_or_numbers_are_texts_to_kubectl(
    inject: Any,
) -> None:
    given = ("--label", "on=no", "--label", "app=y", "--annotation", "at=12:30:45")
    _, out, _ = inject(DEPLOYMENT, *given, "--http-tls-clients", "off", "--topics-prefix", "1_000")
    template = objects(out)[0]["spec"]["template"]
    assert template["metadata"]["labels"]["on"] == "no"
    assert template["metadata"]["annotations"]["at"] == "12:30:45"
    assert "app: 'y'" in out
    environment = {
        one["name"]: one.get("value") for one in pods(out)[0]["initContainers"][0]["env"]
    }
    assert environment["HALFHITCH_HTTP_TLS_CLIENTS"] == "off"
    assert environment["HALFHITCH_TOPICS_PREFIX"] == "1_000"


def test_a_host_network_that_old_yaml_says_is_off_is_off(inject: Any) -> None:
    for word, code in (("no", OK), ("off", OK), ("yes", USAGE), ("On", USAGE)):
        text = POD.replace("{containers", f"{{hostNetwork: {word}, containers")
        assert inject(text)[0] == code


def test_files_of_the_kafka_client_come_from_secrets(inject: Any) -> None:
    option = "security.protocol=SSL,ssl.ca.location=secret:kafka-ca/ca.crt"
    _, out, _ = inject(POD, "--kafka-options", option)
    (pod,) = pods(out)
    (text,) = [
        one["value"]
        for one in pod["initContainers"][0]["env"]
        if one["name"] == "HALFHITCH_KAFKA_OPTIONS"
    ]
    assert "/etc/halfhitch/secrets/kafka-ca.pem" in text
    assert "kafka-ca.pem" in str(pod["volumes"])


def test_several_files_become_one_stream(tmp_path: Path, inject: Any) -> None:
    for name, text in (("a.yaml", DEPLOYMENT), ("b.yaml", JOB)):
        (tmp_path / name).write_text(text)
    files = ("-f", str(tmp_path / "a.yaml"), "-f", str(tmp_path / "b.yaml"))
    code, out, _ = inject("", *files)
    assert code == OK
    assert [one["kind"] for one in objects(out)] == ["Deployment", "Job"]


def test_kinds_of_other_groups_passed_in_silence_or_were_refused(inject: Any) -> None:
    """Argo's Rollout has a template like a Deployment; Volcano's Job has none like Kubernetes'."""
    rollout = DEPLOYMENT.replace("apps/v1", "argoproj.io/v1alpha1").replace(
        "kind: Deployment", "kind: Rollout"
    )
    volcano = (
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: v}\nspec:\n"
        "  tasks: [{template: {spec: {containers: [{name: a, image: b}]}}}]\n"
    )
    code, out, err = inject(f"{rollout}---\n{volcano}")
    assert (code, err.splitlines()[-1]) == (OK, "halfhitch: 1 injected.")
    assert "document 2, Job/v of batch.volcano.sh/v1alpha1 is left alone" in err
    assert out.endswith(f"---\n{volcano}")
    spec = objects(out)[0]["spec"]["template"]["spec"]
    assert spec["initContainers"][0]["name"] == "halfhitch"
    assert inject(volcano)[0] == ERROR


def test_a_file_lost_the_ends_of_its_lines(tmp_path: Path, inject: Any) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(f"{SERVICE}---\n{DEPLOYMENT}".replace("\n", "\r\n").encode())
    code, out, _ = inject("", "-f", str(file))
    assert code == OK
    assert out.count("\n") == out.count("\r\n")
    assert objects(out) == objects(inject(f"{SERVICE}---\n{DEPLOYMENT}")[1])


@pytest.mark.parametrize(
    ("text", "flags", "code", "says"),
    [
        ("a: [", (), ERROR, "it is not YAML"),
        ("- 1\n", (), ERROR, "it is no manifest"),
        ("hello\n", (), ERROR, "it is no manifest"),
        ("kind: Pod\n", (), ERROR, "it has no apiVersion"),
        (f"{POD}---\napiVersion: v1\n", (), ERROR, "document 2: it is no manifest"),
        ("", (), ERROR, "Nothing was injected"),
        (SERVICE, (), ERROR, "Nothing was injected"),
        ("apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {}\n", (), ERROR, "Job/j"),
        (POD.replace("{containers", "{hostNetwork: true, containers"), (), USAGE, "hostNetwork"),
        (POD.replace("name: a", "name: halfhitch"), (), USAGE, "was not injected: rename it"),
        (JOB, ("--mode", "container"), USAGE, "use --mode native"),
        (POD, ("--handle-key", "a-key-of-sixteen-bytes-and-more"), USAGE, "--handle-key-file"),
        (POD, ("--auth-tokens", "a-token-that-is-long-enough"), USAGE, "--auth-token-file"),
        (POD, ("--redis-url-file", "/etc/redis"), USAGE, "secret:NAME/KEY"),
        (POD, ("--http-host", "0.0.0.0"), USAGE, "loopback"),
        (POD, ("--log-level", "loud"), USAGE, "log.level"),
        (POD, ("--label", "team"), ERROR, "--label must be NAME=VALUE"),
        (POD.replace("metadata: {name: one}", "metadata: one"), (), USAGE, "must be a mapping"),
        (
            JOB.replace("metadata: {", "metadata: {annotations: {halfhitch/inject: 'false'}, ", 1),
            (),
            USAGE,
            "move it to spec.template.metadata.annotations",
        ),
        (POD, ("--annotation", "halfhitch/inject=perhaps"), USAGE, "must be true or false"),
        (POD, ("--image", ""), ERROR, "--image must name an image, such as halfhitch:"),
        (POD, ("--image", "a b"), ERROR, "--image must name an image"),
        (POD, ("--http-port", "0"), USAGE, "http.port is 0"),
        (POD, ("-f", "/nowhere/x.yaml"), ERROR, "/nowhere/x.yaml cannot be read"),
    ],
)
def test_what_cannot_be_injected_is_told(
    text: str, flags: tuple[str, ...], code: int, says: str, inject: Any
) -> None:
    got, out, err = inject(text, *flags)
    assert says in err
    assert (got, out) == (code, "")


def test_what_must_be_given_is_told_with_the_cure(inject: Any) -> None:
    assert "--kafka-bootstrap" in inject(POD, only=True)[2]
    only = inject(POD, "--kafka-bootstrap", "k:9092", only=True)
    assert "--handle-key-file secret:NAME/KEY" in only[2]


def test_an_annotation_that_is_no_setting_is_told_with_the_nearest(inject: Any) -> None:
    wrong = POD.replace("{name: one}", "{name: one, annotations: {halfhitch/checks.intervl_s: 3}}")
    assert "checks.interval_s" in inject(wrong)[2]


def test_what_the_sidecar_may_take_was_fixed(inject: Any) -> None:
    flags = ("--memory-limit", "1Gi", "--cpu-limit", "1", "--cpu-request", "none")
    annotation = ("--annotation", "halfhitch/memory-request=128Mi")
    code, out, _ = inject(DEPLOYMENT, *flags, *annotation)
    assert code == OK
    assert pods(out)[0]["initContainers"][0]["resources"] == {
        "limits": {"cpu": "1", "memory": "1Gi"},
        "requests": {"memory": "128Mi"},
    }
    assert inject(out, *flags)[:2] == (OK, out)
    code, out, err = inject(DEPLOYMENT, "--memory-limit", "512MB")
    assert (code, out) == (USAGE, "")
    assert "memory-limit cannot be '512MB'" in err
    code, out, err = inject(DEPLOYMENT, "--annotation", "halfhitch/cpu-limit=10m")
    assert (code, out) == (USAGE, "")
    assert "Deployment/shop: cpu-request is 50m, more than cpu-limit, which is 10m: raise" in err


@pytest.mark.parametrize(
    ("annotation", "says"),
    [
        ("halfhitch/cpu-limit: 1", 'write it in quotes, such as halfhitch/cpu-limit: "1".'),
        ("halfhitch/checks.interval_s: 30.5", 'halfhitch/checks.interval_s: "30.5".'),
        ("halfhitch/readiness: false", 'halfhitch/readiness: "false".'),
        ("halfhitch/inject: yes please", "must be true or false, not 'yes please'"),
        ("halfhitch/inject: true", 'halfhitch/inject: "true".'),
    ],
)
def test_an_annotation_without_quotes_came_out_and_the_server_refused_it(
    annotation: str, says: str, inject: Any
) -> None:
    text = DEPLOYMENT.replace(
        "      labels: {app: shop}\n",
        f"      labels: {{app: shop}}\n      annotations: {{{annotation}}}\n",
    )
    assert annotation in text
    code, out, err = inject(text)
    assert (code, out) == (USAGE, "")
    assert says in err
