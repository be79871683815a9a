"""Runs the Java cases against one side with one client, and reads what they observed.

Owns the command line for Maven and the folder of records. A case that fails is a finding like any
other: the result says so, with the words of the failure.
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from conformance.servers import CHECK_MAX, IMMUNITY_MS, INTERVAL_MS, Control
from harness.rocketmq import maven_command, run_maven

if TYPE_CHECKING:
    from collections.abc import Mapping

    from conformance.servers import Side

_POM = Path(__file__).parent / "java" / "pom.xml"


@dataclass(frozen=True, slots=True)
class Client:
    """One client: the Maven profile that brings it, what its JVM is told, and which cases it does.

    groups: JUnit tags; none means all cases. What the others would add is the same in all clients.
    """

    title: str
    profile: str
    jvm: str = ""
    groups: str = "quick"


CLIENTS = {
    "client-5": Client("rocketmq-client 5.5.0", "client-5", groups=""),
    "client-5-binary": Client(
        "rocketmq-client 5.5.0 with ROCKETMQ headers",
        "client-5",
        "-Drocketmq.serialize.type=ROCKETMQ",
    ),
    "client-4": Client("rocketmq-client 4.9.8", "client-4"),
    "spring": Client("rocketmq-spring 2.3.5 (client 5.3.2, Spring Boot 2.7)", "spring"),
}
_SUITE_S = 1_500.0
_FAILURE_CHARACTERS = 2_000


@dataclass(slots=True)
class SuiteResult:
    """What one run saw. `failed`: test names, with what each said."""

    observed: dict[str, dict[str, Any]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    passed_count: int = 0
    said: str = ""


def build(client: str) -> None:
    """Compile the cases for one client; MavenUnavailable if that cannot be done."""
    # The test runner's own parts are fetched when a test is run first: so one is run here.
    run_maven([f"-P{CLIENTS[client].profile}", "test", "-Dtest=HelpersTest"], _POM)


def run(
    side: Side,
    client: str,
    folder: Path,
    *,
    groups: str = "",
    cases: str = "",
    properties: Mapping[str, str] | None = None,
) -> SuiteResult:
    """Run the built cases. `groups`: JUnit tags; `cases`: names, as Maven's -Dtest takes them."""
    records, reports = folder / "records", folder / "reports"
    records.mkdir(parents=True, exist_ok=True)
    with Control(side) as control:
        told = {
            "conformance.kind": side.kind,
            "conformance.control": control.address,
            "conformance.records": str(records),
            "conformance.immunityMs": str(IMMUNITY_MS),
            "conformance.intervalMs": str(INTERVAL_MS),
            "conformance.checkMax": str(CHECK_MAX),
            **side.properties(),
            **(properties or {}),
        }
        arguments = [f"-D{name}={value}" for name, value in told.items()]
        command = maven_command(
            _POM,
            "--offline",
            f"-P{CLIENTS[client].profile}",
            "surefire:test",
            f"-Dconformance.jvm={CLIENTS[client].jvm}",
            f"-Dconformance.reports={reports}",
            *([f"-Dgroups={groups}"] if groups else []),
            *([f"-Dtest={cases}"] if cases else []),
            *arguments,
        )
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SUITE_S,
            check=False,
        )
    return _read(records, reports, done.stdout + done.stderr)


def _read(records: Path, reports: Path, said: str) -> SuiteResult:
    result = SuiteResult(said=said)
    for record in sorted(records.glob("*.json")):
        result.observed[record.stem] = json.loads(record.read_text("utf-8"))
    for report in sorted(reports.glob("TEST-*.xml")):
        for case in ET.parse(report).getroot().iter("testcase"):
            name = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}"
            trouble = [*case.findall("failure"), *case.findall("error")]
            if trouble:
                text = re.sub(r"\n\tat (?!halfhitch).*", "", trouble[0].text or "")
                result.failed[name] = text[:_FAILURE_CHARACTERS]
            elif case.find("skipped") is None:
                result.passed_count += 1
    return result
