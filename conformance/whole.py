"""The whole comparison: both servers, all clients, then record.json and docs/conformance.md.

Owns the command line and the two files. Red (exit code 1) when a case fails on a server, or when
something differs that nobody meant.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance import comparison
from conformance.cases import CASES, Verdict
from conformance.servers import CHECK_MAX, IMMUNITY_MS, INTERVAL_MS, HalfHitchSide, RocketMqSide
from conformance.suite import CLIENTS, SuiteResult, build, run
from halfhitch.embedded import EmbeddedKafka, EmbeddedRedis, unwind_on_sigterm
from harness.native import go_native

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from conformance.servers import Side

RECORD = Path(__file__).parent / "record.json"
_DOCUMENT = Path(__file__).parents[1] / "docs" / "conformance.md"
# By client, then case, then server.
Record = dict[str, dict[str, dict[str, dict[str, Any]]]]
_KAFKA = {"message.max.bytes": "8388608"}
_PAGE = """\
# Half Hitch beside RocketMQ

RocketMQ's own Java clients, unmodified, run the same cases against RocketMQ 5.5.0 and against
Half Hitch. `conformance/record.json` has what they and the consumers saw; `make conformance`
makes the record and this page.

Both servers send the first check after {immunity} s, then one every {interval} s, at most
{checks} checks. The producers send a heartbeat every {interval} s. RocketMQ runs with one name
server, one broker and its defaults, except that it batches op records for 0.2 s (a tenth of the
interval, as in its defaults). Half Hitch runs with one sidecar, one Kafka broker and Redis.
RocketMQ's own pull consumer reads RocketMQ's messages; a Kafka consumer with `read_committed`
reads Half Hitch's. The last column gives the reason for what is *better on purpose* or *different
on purpose*; *worse* is a bug or a gap.

## {client}

{table}

## Other clients

The quick cases from above, on both servers.

{others}
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clients", default=",".join(CLIENTS), help=", ".join(CLIENTS))
    parser.add_argument("--servers", default="rocketmq,halfhitch", help="one or both")
    parser.add_argument("--cases", default="", help="test classes, as Maven's -Dtest takes them")
    parser.add_argument("--groups", default="", help="JUnit tags: quick")
    parser.add_argument("--keep", type=Path, help="folder for logs and reports")
    parser.add_argument(
        "--native", action="store_true", help="Half Hitch with halfhitch-native (`make native`)"
    )
    parser.add_argument("--render", action="store_true", help="the page from the record alone")
    asked = parser.parse_args(arguments)
    if asked.render:
        _DOCUMENT.write_text(page(json.loads(RECORD.read_text("utf-8"))), "utf-8")
        return 0
    if asked.native:
        go_native()
    clients = asked.clients.split(",")
    folder = asked.keep or Path(tempfile.mkdtemp(prefix="halfhitch-conformance-"))
    with unwind_on_sigterm():
        # Clients of one profile differ in what their JVM is told alone.
        for client in {CLIENTS[client].profile: client for client in clients}.values():
            _say(f"building the cases for {client}")
            build(client)
        record: Record = {client: {} for client in clients}
        failed: list[str] = []
        for server in asked.servers.split(","):
            with ExitStack() as stack:
                side = _start(server, folder / server, stack)
                for client in clients:
                    result = run(
                        side,
                        client,
                        folder / server / client,
                        groups=asked.groups or CLIENTS[client].groups,
                        cases=asked.cases,
                    )
                    failed += _take(record, server, client, result)
    is_whole = not (asked.cases or asked.groups) and set(asked.servers.split(",")) == {
        "rocketmq",
        "halfhitch",
    }
    return _finish(record, failed, folder, is_whole=is_whole, keep=asked.keep is not None)


def _start(server: str, folder: Path, stack: ExitStack) -> Side:
    _say(f"starting {server}; logs: {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    if server == "rocketmq":
        return stack.enter_context(RocketMqSide(folder))
    kafka = stack.enter_context(EmbeddedKafka(properties=_KAFKA, short_lived=True))
    redis = stack.enter_context(EmbeddedRedis())
    return stack.enter_context(HalfHitchSide(folder, kafka.bootstrap, redis.url, large=True))


def _take(record: Record, server: str, client: str, result: SuiteResult) -> list[str]:
    """Into the record; what went wrong is returned."""
    for case, observed in result.observed.items():
        record[client].setdefault(case, {})[server] = observed
    _say(f"{server}, {client}: {result.passed_count} passed, {len(result.failed)} failed")
    if not result.passed_count:
        return [f"{server}, {client}: nothing ran:\n{result.said[-2000:]}"]
    return [f"{server}, {client}: {name}\n{said}" for name, said in result.failed.items()]


def _finish(record: Record, failed: list[str], folder: Path, *, is_whole: bool, keep: bool) -> int:
    wrong = list(failed)
    if is_whole:
        for client, cases in record.items():
            wrong += [f"{client}: {finding}" for finding in comparison.findings(cases)]
        known: Record = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
        known.update(record)
        RECORD.write_text(
            json.dumps(known, indent=1, sort_keys=True, ensure_ascii=False) + "\n", "utf-8"
        )
        _DOCUMENT.write_text(page(known), "utf-8")
    else:
        print(json.dumps(record, indent=1, sort_keys=True, ensure_ascii=False))
        wrong += _unlike(record)
    for one in wrong:
        _say(f"WRONG {one}")
    if wrong:
        _say(f"logs and reports: {folder}")
    elif not keep:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if wrong else 0


def _unlike(record: Record) -> Iterator[str]:
    """What a part of the comparison saw on Half Hitch, and the record of the whole does not say."""
    known: Record = json.loads(RECORD.read_text("utf-8"))
    for client, cases in record.items():
        for case, sides in cases.items():
            before = known.get(client, {}).get(case, {}).get("halfhitch")
            if before is not None and "halfhitch" in sides:
                changed = comparison.changes(CASES[case], before, sides["halfhitch"])
                yield from (f"{client}: {case}: {one}" for one in changed)


def page(record: Record) -> str:
    """docs/conformance.md."""
    first = next(iter(CLIENTS))
    return _PAGE.format(
        immunity=f"{IMMUNITY_MS / 1000:g}",
        interval=f"{INTERVAL_MS / 1000:g}",
        checks=CHECK_MAX,
        client=CLIENTS[first].title,
        table="\n".join(comparison.rows(record.get(first, {}))),
        others="\n".join(_others(record, first)),
    )


def _others(record: Record, first: str) -> Iterator[str]:
    verdicts = [verdict.value for verdict in Verdict]
    yield f"| client | cases | {' | '.join(verdicts)} | cases with another verdict than above |"
    yield "|---" * (len(verdicts) + 3) + "|"
    above = comparison.verdicts(record.get(first, {}))
    for client, cases in record.items():
        if client == first:
            continue
        found = comparison.verdicts(cases)
        counts = [str(list(found.values()).count(verdict)) for verdict in Verdict]
        apart = [
            f"{CASES[case].title}: {verdict.value}"
            for case, verdict in found.items()
            if case in above and above[case] is not verdict
        ]
        yield (
            f"| {CLIENTS[client].title} | {len(cases)} | {' | '.join(counts)} "
            f"| {'; '.join(apart) or 'none'} |"
        )
    yield ""
    # What the first client has no part in.
    for cases in record.values():
        own = {name: sides for name, sides in cases.items() if name not in above}
        if own:
            yield from comparison.rows(own)


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)
