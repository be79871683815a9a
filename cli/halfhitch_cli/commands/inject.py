"""halfhitch inject: manifests in, the same manifests with the sidecar out."""

import sys
from collections.abc import MutableMapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from halfhitch import __version__, extras
from halfhitch.errors import RequestError
from halfhitch_cli.lazy import PlainCommand
from halfhitch_cli.manifests import Manifests
from halfhitch_cli.options import Given as Flags
from halfhitch_cli.options import settings_command
from halfhitch_cli.output import say
from halfhitch_cli.pod_resources import DEFAULTS, SAID, Resources
from halfhitch_cli.pod_rules import annotations_of, stands_at_the_pods, wanted
from halfhitch_cli.pod_settings import PREFIX, Given
from halfhitch_cli.sidecar_pod import Sidecar
from halfhitch_cli.workloads import KINDS, Workload

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class Mode(StrEnum):
    """What kind of container it is."""

    NATIVE = "native"
    CONTAINER = "container"


class Transport(StrEnum):
    """How the application reaches it."""

    AUTO = "auto"
    SOCKET = "socket"
    TCP = "tcp"


def _amount(name: str) -> Any:
    return typer.Option(metavar="AMOUNT", help=SAID[name])


_CpuRequest = Annotated[str, _amount("cpu-request")]
_CpuLimit = Annotated[str, _amount("cpu-limit")]
_MemoryRequest = Annotated[str, _amount("memory-request")]
_MemoryLimit = Annotated[str, _amount("memory-limit")]


def inject(
    given: Flags,
    files: Annotated[
        list[str] | None,
        typer.Option("-f", "--file", metavar="PATH", help="Manifests; - is standard input."),
    ] = None,
    image: Annotated[str, typer.Option(help="The sidecar's image.")] = f"halfhitch:{__version__}",
    mode: Annotated[
        Mode, typer.Option(help="A native sidecar, or an ordinary container (before 1.29).")
    ] = Mode.NATIVE,
    transport: Annotated[
        Transport, typer.Option(help="auto: the unix socket where the pod has an fsGroup.")
    ] = Transport.AUTO,
    readiness: Annotated[
        bool,
        typer.Option(
            "--readiness/--no-readiness",
            help="Whether a pod is taken out of Services while its sidecar is not ready.",
        ),
    ] = True,
    cpu_request: _CpuRequest = DEFAULTS["cpu-request"],
    cpu_limit: _CpuLimit = DEFAULTS["cpu-limit"],
    memory_request: _MemoryRequest = DEFAULTS["memory-request"],
    memory_limit: _MemoryLimit = DEFAULTS["memory-limit"],
    namespace: Annotated[
        str | None, typer.Option(help="Namespace of the objects that name none.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="One more label of the pods.")
    ] = None,
    annotation: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="One more annotation of the pods."),
    ] = None,
) -> int:
    """Add the sidecar to the pods of these manifests, and print them.

    What is there already is brought up to date, so it can be repeated. Settings are the flags
    below, or annotations of the pod template (halfhitch/checks.interval_s: "30"), which win.
    Files are named as secret:NAME/KEY or configmap:NAME/KEY. A pod with the annotation or label
    halfhitch/inject: "false" is left alone.
    """
    extras.require("`halfhitch inject`", extras.KUBERNETES)
    if given.config_path is not None:
        raise RequestError("inject takes no --config: give flags, or annotations of the pods.")
    if not image or image.split() != [image]:
        raise RequestError(f"--image must name an image, such as halfhitch:{__version__}.")
    amounts = {
        "cpu-request": cpu_request,
        "cpu-limit": cpu_limit,
        "memory-request": memory_request,
        "memory-limit": memory_limit,
    }
    sidecar = Sidecar(
        Given.of(given.flags),
        image,
        mode.value,
        transport.value,
        readiness,
        resources=Resources.of(amounts),
    )
    more = {"labels": _pairs("--label", label), "annotations": _pairs("--annotation", annotation)}
    return _injected(sidecar, files or ["-"], namespace, more)


def _injected(
    sidecar: Sidecar, files: list[str], namespace: str | None, more: dict[str, dict[str, str]]
) -> int:
    texts, count = [], 0
    for name in files:
        manifests = Manifests("standard input" if name == "-" else name, _read(name))
        for one in manifests.objects() if namespace else ():
            _member(one, "metadata").setdefault("namespace", namespace)
        for workload in manifests.workloads():
            _add(workload, **more)
            if not wanted(workload.where, workload.template):
                continue
            stands_at_the_pods(workload.where, workload.above, workload.place, workload.template)
            sidecar.inject(workload.where, workload.template, ends=workload.ends)
            count += 1
        for sentence in manifests.left_alone():
            say(f"halfhitch: {sentence}")
        texts.append(manifests.text(everything=namespace is not None))
    if not count:
        raise RequestError(
            f"Nothing was injected: there is no {KINDS}, or all of them have {PREFIX}inject: "
            "'false'."
        )
    sys.stdout.write(_joined(texts))
    say(f"halfhitch: {count} injected.")
    return 0


def _add(workload: Workload, **given: dict[str, str]) -> None:
    """More labels and annotations of the pods."""
    annotations_of(workload.where, workload.template)  # refuses what would be overwritten
    metadata = _member(workload.template, "metadata")
    for place, more in given.items():
        if more:
            _member(metadata, place).update(more)


def _member(owner: MutableMapping[str, Any], name: str) -> MutableMapping[str, Any]:
    """What YAML leaves empty is null and not there at once."""
    found = owner.get(name)
    if not isinstance(found, MutableMapping):
        found = owner[name] = {}
    return found


def _joined(texts: list[str]) -> str:
    first, *others = texts
    return first + "".join(text if text.startswith("---") else f"---\n{text}" for text in others)


def _read(name: str) -> str:
    """To the letter: Python would change how lines end."""
    try:
        if name != "-":
            return Path(name).read_bytes().decode()
        source = getattr(sys.stdin, "buffer", sys.stdin)
        read = source.read()
        return read.decode() if isinstance(read, bytes) else str(read)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise RequestError(f"{name} cannot be read: {reason}.") from None


def _pairs(flag: str, given: list[str] | None) -> dict[str, str]:
    pairs = [text.partition("=") for text in given or ()]
    for name, equals, _ in pairs:
        if not equals or not name:
            raise RequestError(f"{flag} must be NAME=VALUE, not {name!r}.")
    return {name: value for name, _, value in pairs}


app.command(cls=PlainCommand)(settings_command(inject))
