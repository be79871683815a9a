"""The audit's command line: arguments, session, exit codes, and what is printed.

Exit codes are those of `halfhitch verify`: 0 clean, 3 not clean, 4 not judged, 1 it could not look,
2 wrong usage. What is wrong with an argument is a sentence on stderr.
"""

import argparse
import os
import re
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from halfhitch.errors import BackendError, ConfigurationError
from halfhitch.verify.bounds import Rules
from halfhitch.verify.report import Verdict
from halfhitch.wire.topics import InternalTopics
from halfhitch_spark.audit.page import page
from halfhitch_spark.audit.plan import Wanted
from halfhitch_spark.audit.run import Given, audit
from halfhitch_spark.audit.tables import printed, write_tables
from halfhitch_spark.options import safe_options
from halfhitch_spark.session import local_session

EXIT_CODES: Final = {Verdict.CLEAN: 0, Verdict.NOT_CLEAN: 3, Verdict.NOT_JUDGED: 4}
COULD_NOT_LOOK: Final = 1
WRONG_USAGE: Final = 2
#: Set by spark-submit for the driver that it starts.
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
_AGO: Final = re.compile(r"([0-9]{1,6}(\.[0-9]{1,6})?[smhd])+")
_PART: Final = re.compile(r"([0-9.]+)([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise ConfigurationError(message)


def parser() -> argparse.ArgumentParser:
    """All arguments."""
    made = _Parser(
        prog="halfhitch_spark.audit",
        description="Is anything lost or doubled? What `halfhitch verify` asks, as a Spark job.",
        epilog="Exit code 0: clean. 3: not clean. 4: not judged: nothing wrong was found, and not "
        "enough could be looked at. 1: it could not look at all. 2: wrong usage.",
    )
    add = made.add_argument
    add("--kafka-bootstrap", required=True, metavar="HOST:PORT", help="brokers to ask first")
    add("--topics-prefix", default="", metavar="TEXT", help="as the sidecars have it")
    add(
        "--topics-allow",
        action="append",
        metavar="PATTERN",
        help="as the sidecars have it; repeatable, or with commas [all topics]",
    )
    add("--topic", action="append", metavar="NAME", help="only this target; repeatable")
    add("--group", metavar="NAME", help="only transactions of this producer group")
    add("--since", metavar="TIME", help="judge what ended since: 30m, 2h, 3d ago, or ISO 8601")
    add("--out", metavar="FOLDER", help="write Parquet tables here; it must not have any yet")
    add("--page", metavar="FILE", help="write a page of HTML with plots here, beside the driver")
    add("--limit", type=int, default=1_000, metavar="COUNT", help="list so many of each kind")
    add("--judged-min", type=float, default=50.0, metavar="PERCENT", help="as verify's")
    add("--open-wait-s", type=float, default=20.0, help="wait for open Kafka transactions")
    add("--step-ms", type=int, default=Rules().step_ms, help="owner.transaction_timeout_ms")
    add("--memory-s", type=int, default=Rules().memory_ms // 1000, help="ledger.horizon_s")
    add(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of Spark's Kafka source: kafka.security.protocol=SSL; repeatable",
    )
    add("--options-file", metavar="FILE", help="such lines in a file: for secrets")
    add("--cores", type=int, default=2, help="without spark-submit: cores of this machine")
    add("--jars", default="", metavar="FILES", help="without spark-submit: the connector's jars")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; the exit code."""
    try:
        options = parser().parse_args(arguments)
        given, share_min = _given(options), _share(options.judged_min)
        spark = _session(options)
        result = audit(spark, given, tell=_say if sys.stderr.isatty() else lambda _: None)
        if options.group is not None and options.group not in result.groups:
            raise ConfigurationError(
                f"no topic has a transaction of the producer group {options.group!r} (--group)"
            )
        sys.stdout.write(printed(result, share_min) + "\n")
        if options.out is not None:
            write_tables(spark, result, share_min, options.out)
        if options.page is not None:
            _write(Path(options.page), page(result, share_min))
        return EXIT_CODES[result.verdict(share_min)]
    except ConfigurationError as problem:
        _say(problem.message)
        return WRONG_USAGE
    except BackendError as problem:
        _say(problem.message)
        return COULD_NOT_LOOK


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as problem:
        raise ConfigurationError(f"{path} cannot be written (--page): {problem}") from problem


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


def _given(options: argparse.Namespace) -> Given:
    allow = [p.strip() for text in options.topics_allow or ["*"] for p in text.split(",")]
    for name, least in (("limit", 1), ("step_ms", 1), ("memory_s", 1), ("cores", 1)):
        if getattr(options, name) < least:
            shown = "--" + name.replace("_", "-")
            raise ConfigurationError(f"{shown} must be {least} at least")
    if not 0 <= options.open_wait_s <= 3_600:
        raise ConfigurationError("--open-wait-s must be between 0 and 3600")
    wanted = Wanted(
        InternalTopics(options.topics_prefix),
        allow,
        tuple(options.topic or ()),
        0 if options.since is None else since_ms(options.since, time.time_ns() / 1e9),
        options.open_wait_s,
    )
    return Given(
        options.kafka_bootstrap,
        wanted,
        Rules(options.step_ms, options.memory_s * 1_000),
        options.group,
        options.limit,
        _source_options(options),
    )


def _share(percent: float) -> float:
    if not 0 <= percent <= 100:
        raise ConfigurationError("--judged-min must be between 0 and 100")
    return percent / 100


def since_ms(text: str, now_s: float) -> int:
    """30m, 1h30m, 3d ago, or a moment with a time zone. ConfigurationError for anything else."""
    if _AGO.fullmatch(text) is not None:
        ago_s = sum(float(count) * _SECONDS[unit] for count, unit in _PART.findall(text))
        return max(1, int((now_s - ago_s) * 1_000))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f"--since {text!r} is neither a time ago (30m, 2h, 3d) nor a moment (2026-11-21T16:00Z)"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(1, int(moment.timestamp() * 1_000))


def _source_options(options: argparse.Namespace) -> dict[str, str]:
    lines = list(options.option)
    if options.options_file is not None:
        try:
            text = Path(options.options_file).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            raise ConfigurationError(f"--options-file cannot be read: {problem}") from problem
        told = [line.strip() for line in text.splitlines()]
        lines += [line for line in told if line and not line.startswith("#")]
    found: dict[str, str] = {}
    for line in lines:
        name, sign, value = line.partition("=")
        if not sign or not name.strip():
            # Not the line itself: it may be half of a secret.
            raise ConfigurationError("an option of Spark's source is name=value (see --option)")
        found[name.strip()] = value.strip()
    return {name: str(value) for name, value in safe_options(found).items()}


def _session(options: argparse.Namespace) -> SparkSession:
    if _SUBMITTED in os.environ:
        return SparkSession.builder.appName("halfhitch audit").getOrCreate()
    jars = [Path(name) for name in options.jars.split(",") if name]
    missing = [jar for jar in jars if not jar.is_file()]
    if missing:
        raise ConfigurationError(f"--jars: there is no file {missing[0]}")
    return local_session("halfhitch audit", jars=jars, core_count=options.cores)
