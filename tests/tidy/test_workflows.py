"""The workflows: they call what is there, trust nothing that can change, and publish nothing alone.

No runner is at hand here, so what can be read off them is. Every check is shown to be able to fail.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))

Workflow = dict[Any, Any]


def read(path: Path) -> Workflow:
    loaded: Workflow = yaml.safe_load(path.read_text())
    return loaded


def steps(workflow: Workflow) -> Iterator[dict[str, Any]]:
    for job in workflow["jobs"].values():
        yield from job["steps"]


def unknown_targets(workflow: Workflow) -> Iterator[str]:
    """`make` calls that the Makefile does not know."""
    for step in steps(workflow):
        for words in re.findall(r"\bmake ((?:[a-z][\w-]*\s*)+)", step.get("run", "")):
            yield from (word for word in words.split() if word not in TARGETS)


def missing_scripts(workflow: Workflow) -> Iterator[str]:
    for step in steps(workflow):
        for path in re.findall(r"\b[\w./-]+\.(?:sh|py)\b", step.get("run", "")):
            if not (ROOT / path).is_file():
                yield path


def loose_actions(text: str) -> Iterator[str]:
    """Actions that are not pinned to a commit with its version beside it."""
    for line in text.splitlines():
        if "uses:" in line and not re.search(r"uses: [\w./-]+@[0-9a-f]{40} # v\d", line):
            yield line.strip()


def loose_rights(workflow: Workflow) -> Iterator[str]:
    """Rights to write beyond the attestations and the publisher's own."""
    if workflow.get("permissions") != {"contents": "read"}:
        yield "the workflow itself may do more than read"
    for name, job in workflow["jobs"].items():
        for right, kind in job.get("permissions", {}).items():
            if kind != "read" and right not in {"id-token", "attestations"}:
                yield f"{name} has {right}: {kind}"


def unknown_needs(workflow: Workflow) -> Iterator[str]:
    for job in workflow["jobs"].values():
        needs = job.get("needs", [])
        yield from (
            name
            for name in ([needs] if isinstance(needs, str) else needs)
            if name not in workflow["jobs"]
        )


def _publishes(step: dict[str, Any]) -> bool:
    told = step.get("run", "")
    return "publish" in step.get("uses", "") or "docker://" in told or "docker push" in told


def named_registries(workflow: Workflow) -> Iterator[str]:
    """Where images go to is a maintainer's to say."""
    for step in steps(workflow):
        yield from re.findall(r"(?:docker://|login |push )\S*\w\.[a-z]{2,}\b", step.get("run", ""))


def given_to_shells(workflow: Workflow) -> Iterator[str]:
    """Expressions in a script: whoever names a branch or a variable would write the script."""
    for step in steps(workflow):
        yield from re.findall(r"\$\{\{.*?\}\}", step.get("run", ""))


def unswitched(workflow: Workflow) -> Iterator[str]:
    """Jobs that publish without the maintainer's switch."""
    for name, job in workflow["jobs"].items():
        if any(map(_publishes, job["steps"])):
            condition = str(job.get("if", ""))
            for part in ("vars.HALFHITCH_PUBLISH == 'on'", "inputs.publish", "refs/tags/v"):
                if part not in condition:
                    yield f"{name} does not ask for {part}"
            if job.get("environment") != "release":
                yield f"{name} needs nobody's approval"


def test_there_are_two() -> None:
    assert [path.name for path in WORKFLOWS] == ["ci.yml", "release.yml"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_calls_what_is_there_and_has_no_more_rights_than_it_needs(path: Path) -> None:
    workflow = read(path)
    assert list(unknown_targets(workflow)) == []
    assert list(missing_scripts(workflow)) == []
    assert list(loose_actions(path.read_text())) == []
    assert list(loose_rights(workflow)) == []
    assert list(unknown_needs(workflow)) == []
    assert list(unswitched(workflow)) == []
    assert list(named_registries(workflow)) == []
    assert list(given_to_shells(workflow)) == []
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())


def test_ci_runs_the_checks_and_the_tests() -> None:
    commands = [step.get("run", "").partition(" #")[0] for step in steps(read(WORKFLOWS[0]))]
    assert {"make check", "make test", "make wheels", "make test-wheels"} <= set(commands)


def test_every_kind_of_test_is_run_at_night_and_no_push_ends_the_night() -> None:
    workflow = read(WORKFLOWS[0])
    nightly = {
        step["run"].split("make ")[-1]
        for job in workflow["jobs"].values()
        if "!= 'push'" in job.get("if", "")
        for step in job["steps"]
        if "run" in step
    }
    kinds = {"test-all", "test-cluster", "test-kubelet", "test-containers", "test-upgrade"}
    assert kinds <= nightly
    assert "github.event_name" in workflow["concurrency"]["group"]
    (upgrade,) = [job for name, job in workflow["jobs"].items() if name == "upgrade"]
    assert upgrade["steps"][0]["with"]["fetch-depth"] == 0, "older releases are of the history"


def test_a_release_has_wheels_for_every_platform_an_account_of_its_parts_and_of_its_making() -> (
    None
):
    workflow = read(WORKFLOWS[1])
    commands = [step.get("run", "") for step in steps(workflow)]
    for target in (
        "wheel",
        "wheel-native",
        "wheel-compiled",
        "sbom",
        "check-wheels",
        "test-wheels",
    ):
        assert f"make {target}" in commands
    for job in ("native", "compiled"):
        runners = workflow["jobs"][job]["strategy"]["matrix"]["runner"]
        systems = [
            (name.partition("-")[0], name.endswith(("-arm", "macos-15"))) for name in runners
        ]
        assert sorted(systems) == [
            ("macos", False), ("macos", True), ("ubuntu", False), ("ubuntu", True),
        ]  # fmt: skip
    used = {step.get("uses", "").partition("@")[0] for step in steps(workflow)}
    assert {
        "actions/attest-build-provenance",
        "actions/attest-sbom",
        "pypa/gh-action-pypi-publish",
    } <= used
    uploaded = workflow["jobs"]["publish"]
    assert uploaded["permissions"] == {"id-token": "write"}
    assert not any("password" in str(step) for step in uploaded["steps"])


def test_a_release_has_an_image_for_both_machines_and_publishes_the_one_that_was_tried() -> None:
    jobs = read(WORKFLOWS[1])["jobs"]
    commands = [step.get("run", "") for step in jobs["image"]["steps"]]
    parts, built, tried = (
        [n for n, command in enumerate(commands) if command.startswith(f"make {target}")]
        for target in ("image-parts", "image-release", "test-image")
    )
    assert parts < built < tried
    assert 'FAST=yes MACHINES="x86_64 aarch64"' in commands[parts[0]]
    makefile = (ROOT / "Makefile").read_text()
    assert "PLATFORMS := linux/amd64,linux/arm64\n" in makefile
    recipe = makefile.partition("\nimage-release:")[2].partition("\n\n")[0]
    for word in ("--provenance mode=max", "--sbom true", "--network none", "build/image.oci.tar"):
        assert word in recipe
    published = jobs["publish-image"]
    assert set(published["needs"]) == {"verify", "image"}
    assert "vars.HALFHITCH_IMAGE != ''" in published["if"]
    assert published["permissions"] == {}
    (copied,) = [step["run"] for step in published["steps"] if "docker://" in step.get("run", "")]
    assert "skopeo copy --all --preserve-digests oci-archive:image.oci.tar" in copied
    assert "--password-stdin" in copied


def test_every_python_that_is_promised_gets_a_compiled_wheel() -> None:
    promised = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    assert read(WORKFLOWS[1])["jobs"]["compiled"]["strategy"]["matrix"]["python"] == promised


_SWITCH = "vars.HALFHITCH_PUBLISH == 'on' && inputs.publish && startsWith(ref, 'refs/tags/v')"


def _with(**job: Any) -> Workflow:
    return {"permissions": {"contents": "read"}, "jobs": {"a": {"steps": [], **job}}}


@pytest.mark.parametrize(
    ("check", "workflow"),
    [
        (unknown_targets, _with(steps=[{"run": "make tea"}])),
        (unknown_targets, _with(steps=[{"run": "cd x && make check tea"}])),
        (missing_scripts, _with(steps=[{"run": "sudo tests/harness/gone.sh"}])),
        (loose_rights, {**_with(), "permissions": "write-all"}),
        (loose_rights, _with(permissions={"contents": "write"})),
        (unknown_needs, _with(needs="b")),
        (unswitched, _with(steps=[{"uses": "a/publish@0"}], environment="release")),
        (unswitched, _with(steps=[{"uses": "a/publish@0"}], **{"if": _SWITCH})),
        (unswitched, _with(steps=[{"run": "skopeo copy a docker://b"}], environment="release")),
        (named_registries, _with(steps=[{"run": 'skopeo copy a "docker://a.example/b:1"'}])),
        (named_registries, _with(steps=[{"run": "skopeo login a.example"}])),
        (given_to_shells, _with(steps=[{"run": "echo ${{ vars.A }}"}])),
        (loose_actions, "- uses: actions/checkout@v4"),
        (loose_actions, "- uses: actions/checkout@" + "0" * 40),
    ],
)  # fmt: skip
def test_a_wrong_workflow_is_found(check: Any, workflow: Any) -> None:
    assert list(check(workflow))


def locked(name: str) -> set[str]:
    return set(re.findall(r"^[a-z0-9._-]+==[^ ]+", (ROOT / name).read_text(), re.MULTILINE))


def test_the_editable_install_is_built_with_hashed_tools_and_nothing_else() -> None:
    """With build isolation pip would fetch hatchling and what it needs, without a hash."""
    lines = (ROOT / "Makefile").read_text().splitlines()
    (editable,) = [line for line in lines if "--editable" in line]
    assert "--no-build-isolation" in editable
    assert "--require-hashes -r build.lock" in lines[lines.index(editable) - 1]
    built = locked("build.lock")
    assert any(line.startswith("hatchling==") for line in built)
    assert built <= locked("release.lock"), "one version of each, whatever is built"


def test_a_release_looks_at_what_is_known_against_its_dependencies() -> None:
    (release,) = [path for path in WORKFLOWS if path.name == "release.yml"]
    assert any(step.get("run") == "make audit" for step in steps(read(release)))
