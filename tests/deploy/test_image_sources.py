"""The Dockerfile, what it copies and what the charts say of the image agree. No engine is needed.

Every rule is shown to be able to fail.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
import yaml

import halfhitch
from halfhitch.config import SETTINGS
from halfhitch.extras import (
    CONTAINERS,
    DJANGO,
    EMBEDDED,
    EXTRA_OF,
    FASTAPI,
    PYDANTIC,
    SPARK,
    SPARK_SOURCE,
    TOP,
)
from harness.charts import CHARTS
from harness.places import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCKERFILE = ROOT / "deploy" / "Dockerfile"
LOCK = (ROOT / "deploy" / "image.lock").read_text()
Instruction = tuple[str, str]

#: Whose version is not the tested one, and why.
OTHERWISE = {"python-dateutil": "botocore takes no 3 or newer, a package of the tests needs it"}


def instructions(text: str) -> list[Instruction]:
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    words = (line.split(maxsplit=1) for line in joined.splitlines() if line.strip())
    return [(word.upper(), rest) for word, rest in words]


def last_stage(found: list[Instruction]) -> list[Instruction]:
    start = max(n for n, (word, _) in enumerate(found) if word == "FROM")
    return found[start:]


def only(found: list[Instruction], wanted: str) -> str:
    """Of the last stage: the one with that name."""
    (rest,) = [rest for word, rest in last_stage(found) if word == wanted]
    return rest


def loose_bases(found: list[Instruction]) -> Iterator[str]:
    """Bases that cannot be named otherwise, or that are whatever is newest."""
    given = dict(rest.partition("=")[::2] for word, rest in found if word == "ARG")
    for word, rest in found:
        if word == "FROM":
            name = re.fullmatch(r"\$\{(\w+)\}", rest.split()[0])
            default = given.get(name[1]) if name else None
            if not default or ":" not in default or default.endswith(":latest"):
                yield f"FROM {rest.split()[0]}: a base is an argument, and its default has a tag"


def bad_instructions(found: list[Instruction]) -> Iterator[str]:
    for word, rest in found:
        if word == "ADD":
            yield "ADD unpacks and downloads: COPY"
        if word in {"ENTRYPOINT", "CMD"} and not rest.startswith("["):
            yield f"{word} by a shell: it would stand between the engine's signals and the sidecar"
        if word == "HEALTHCHECK" and "CMD [" not in rest:
            yield "HEALTHCHECK needs a shell"
        if word == "RUN" and not rest.startswith("set -eu;"):
            yield "a RUN goes on after what failed"
        if word == "RUN" and re.search(r"\b(apt-get|apk|curl|wget|sudo)\b", rest):
            yield f"fetched while it is built: {rest[:40]}"
        if word == "RUN" and "pip install" in rest and "--no-index" not in rest:
            yield "pip fetches what is not locked"


def bad_last_stage(found: list[Instruction]) -> Iterator[str]:
    last = last_stage(found)
    if any(word == "RUN" for word, _ in last):
        yield "the last stage runs something: its base may have no shell"
    user = [rest for word, rest in last if word == "USER"][-1:]
    if not user or not re.fullmatch(r"[1-9]\d*:[1-9]\d*", user[0]):
        yield "it runs as root, or as a name that no kubelet can judge"
    for word, rest in last:
        if word in {"ARG", "ENV"} and re.search(r"(?i)token|password|secret|_key\b", rest):
            yield f"a secret would stand in the image: {rest}"


def complaints(text: str) -> list[str]:
    found = instructions(text)
    return [*loose_bases(found), *bad_instructions(found), *bad_last_stage(found)]


def test_the_dockerfile_keeps_the_rules() -> None:
    assert complaints(DOCKERFILE.read_text()) == []


GOOD = """ARG BASE=python:3.11-slim
FROM ${BASE} AS build
RUN set -eu; pip install --no-index x
FROM ${BASE}
COPY --from=build /a /a
USER 1:1
HEALTHCHECK CMD ["x"]
ENTRYPOINT ["x"]
"""


def test_a_good_one_is_taken() -> None:
    assert complaints(GOOD) == []


@pytest.mark.parametrize(
    ("instead_of", "bad", "says"),
    [
        ("python:3.11-slim\n", "python\n", "has a tag"),
        ("python:3.11-slim\n", "python:latest\n", "has a tag"),
        ("FROM ${BASE}\n", "FROM debian:12\n", "is an argument"),
        ("COPY", "ADD", "COPY"),
        ('ENTRYPOINT ["x"]', "ENTRYPOINT x", "by a shell"),
        ('HEALTHCHECK CMD ["x"]', "HEALTHCHECK CMD x", "needs a shell"),
        ("set -eu; pip", "pip", "goes on"),
        ("set -eu; pip", "set -eu; apt-get install pip", "fetched"),
        (" --no-index", "", "not locked"),
        ("USER 1:1\n", "USER 1:1\nRUN set -eu; x\n", "may have no shell"),
        ("USER 1:1\n", "", "root"),
        ("USER 1:1\n", "USER 0:0\n", "root"),
        ("USER 1:1\n", "USER halfhitch\n", "root"),
        ("USER 1:1\n", "USER 1:1\nENV ACCESS_TOKEN=x\n", "secret"),
    ],
)
def test_a_bad_one_is_found(instead_of: str, bad: str, says: str) -> None:
    assert instead_of in GOOD
    (found,) = set(complaints(GOOD.replace(instead_of, bad)))
    assert says in found


def test_what_it_copies_is_what_the_engine_is_given() -> None:
    allowed = (ROOT / ".dockerignore").read_text().split("*\n", 1)[1].split()
    copied = [
        path
        for word, rest in instructions(DOCKERFILE.read_text())
        if word == "COPY" and "--from" not in rest
        for path in rest.split()[:-1]
    ]
    for path in copied:
        assert any(path.startswith(one.removeprefix("!")) for one in allowed), path
    for one in allowed:
        assert any(path.startswith(one.removeprefix("!")) for path in copied), one


def test_the_image_is_of_this_release_as_the_charts_and_the_compose_file_have_it() -> None:
    labels = dict(re.findall(r'(org\.opencontainers\S+?)="([^"]*)"', DOCKERFILE.read_text()))
    version = labels["org.opencontainers.image.version"]
    project = (ROOT / "pyproject.toml").read_text()
    assert version == halfhitch.__version__
    assert f'description = "{labels["org.opencontainers.image.description"]}"' in project
    assert f'license = "{labels["org.opencontainers.image.licenses"]}"' in project
    name = f"halfhitch:{version}"
    compose = yaml.safe_load((ROOT / "deploy" / "docker-compose.yml").read_text())
    assert compose["services"]["halfhitch"]["image"] == name
    for chart in ("halfhitch", "halfhitch-sidecar"):
        image = yaml.safe_load((CHARTS / chart / "values.yaml").read_text())["image"]
        assert f"{image['repository']}:{image['tag']}" == name
    about = yaml.safe_load((CHARTS / "halfhitch" / "Chart.yaml").read_text())["annotations"]
    (shown,) = yaml.safe_load(about["artifacthub.io/images"])
    assert shown["image"] == name


def test_user_command_and_ports_are_what_pods_are_told() -> None:
    found = instructions(DOCKERFILE.read_text())
    compose = yaml.safe_load((ROOT / "deploy" / "docker-compose.yml").read_text())
    service = compose["services"]["halfhitch"]
    assert only(found, "USER") == service["user"]
    for chart in ("halfhitch", "halfhitch-sidecar"):
        values = yaml.safe_load((CHARTS / chart / "values.yaml").read_text())
        assert f"{values['runAsUser']}:{values['runAsGroup']}" == service["user"]
    # Pods and the compose file give arguments, and the probes' program by its bare name.
    assert json.loads(only(found, "ENTRYPOINT")) == ["halfhitch"]
    assert json.loads(only(found, "CMD")) == service["command"] == ["serve"]
    ports = {one.key: str(one.default) for one in SETTINGS}
    assert only(found, "EXPOSE").split() == [ports["http.port"], ports["admin.port"]]


def test_what_is_in_the_image_is_what_is_tested() -> None:
    pinned = dict(re.findall(r"^([\w.-]+)==([^ ;]+)", LOCK, re.MULTILINE))
    tests = (ROOT / "requirements.lock").read_text()
    tested = dict(re.findall(r"^([\w.-]+)==([^ ;]+)", tests, re.MULTILINE))
    other = {name for name, version in pinned.items() if tested.get(name, version) != version}
    assert other == set(OTHERWISE)
    assert LOCK.count("--hash=sha256:") >= len(pinned)


#: The servers of tests, what applications have, and a person's screen.
NOT_IN_IT = {CONTAINERS, DJANGO, EMBEDDED, FASTAPI, PYDANTIC, SPARK, SPARK_SOURCE, TOP}


def test_every_extra_that_a_setting_can_ask_for_is_in_the_image() -> None:
    names = {"ruamel": "ruamel-yaml", "aws_msk_iam_sasl_signer": "aws-msk-iam-sasl-signer-python"}
    for module, extra in EXTRA_OF.items():
        if extra in NOT_IN_IT or module in {"halfhitch_native", "sqlalchemy"}:
            continue
        package = names.get(module, module.replace("_", "-"))
        assert re.search(rf"^{package}==", LOCK, re.MULTILINE), module
