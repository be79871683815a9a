"""Faults of the product that were found, and what finds them when they are put back.

Owns `FINDINGS`. A finding has at least one test that is red while the fault is there; the tidy test
looks whether those that are named exist. `seeds` says how many lives, or runs, it took until one
was red: of a simulation or a scenario; a test that is always red has none.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of the table."""

    what: str
    #: Tests by file and name, as pytest has them below `tests/`.
    tests: tuple[str, ...] = ()
    #: Scenarios of this kit.
    scenarios: tuple[str, ...] = ()
    seeds: str = ""


_VERIFYING = "unit/service/test_verifying.py::"
_MIXED = "integration/test_mixed_releases.py::test_"
_WORKER = "unit/service/test_worker.py::test_"

FINDINGS: tuple[Finding, ...] = (
    Finding(
        "A takeover took the last stable offset for the end of the op log; with a resume of parked"
        " messages open it forwarded again what had been forwarded behind it.",
        scenarios=("resume-kill", "resume-owner-stop"),
        seeds="1 run of 1, each: 10 doubled, 1 doubled",
    ),
    Finding(
        "A commit by a check covered the messages that the question had counted; what was added"
        " and acknowledged meanwhile was dropped.",
        scenarios=("apps-slow",),
        seeds="1 run of 1: 10 lost; 15 of 16 runs of other scenarios as well",
    ),
    Finding(
        "Neither `verify` nor the checker of these runs saw acknowledged messages that a commit had"
        " left out: both counted against the owner's own mark.",
        tests=(
            "faults/test_checker.py::test_what_is_spoiled_is_found",
            _VERIFYING + "test_a_message_that_its_commit_left_out_tears_the_transaction",
        ),
    ),
    Finding(
        "While an open Kafka transaction of anybody held the op log, producers were asked about"
        " transactions whose decision had been acknowledged.",
        scenarios=("op-stranger", "op-stranger-takeover"),
        seeds="1 run of 1, each",
    ),
    Finding(
        "The right to write to one target was revoked, the right to describe it was left: no step"
        " of its half partitions was committed any more.",
        scenarios=("target-rights-revoked",),
        seeds="1 run of 1",
    ),
    Finding(
        "An owner with a smaller message limit than the instance that took a message tried to"
        " forward it, and to park it, for ever.",
        scenarios=("owner-stricter",),
        seeds="1 run of 1",
    ),
    Finding(
        "The parked topic took less than the half topic: what could not be parked held up"
        " everybody.",
        scenarios=("parked-limit-lowered",),
        seeds="1 run of 1",
    ),
    Finding(
        "The half topic did not take a copy for a check: no check of that half partition left any"
        " more.",
        scenarios=("half-limit-undecided",),
        seeds="1 run of 1",
    ),
    Finding(
        "An owner that lagged steadily by more than a second asked nobody.",
        scenarios=("owner-lags",),
        seeds="1 run of 1",
    ),
    Finding(
        "A record of a newer release stopped a half partition for as long as an older instance"
        " owned it, and the older instance kept it.",
        tests=(
            _WORKER + "a_record_of_a_newer_release_is_told_and_the_partition_does_not_work_on",
            _MIXED + "an_older_owner_gives_everything_to_the_one_that_can_read_it",
        ),
    ),
)


_TEXT = (
    "What was found and repaired, and what turns red when it is put back. Scenarios are named as in"
    " the table below; how many runs they took was counted on the code as it was before the repair."
)


def finding_lines() -> list[str]:
    """The section of docs/reliability.md."""
    lines = [
        "## Findings",
        "",
        _TEXT,
        "",
        "| finding | found by | seeds it took |",
        "|---|---|---|",
    ]
    for finding in FINDINGS:
        found_by = [*(f"scenario {name}" for name in finding.scenarios)]
        found_by += [f"`tests/{test}`" for test in finding.tests]
        lines.append(
            f"| {finding.what} | {'; '.join(found_by)} | {finding.seeds or 'always red'} |"
        )
    return [*lines, ""]
