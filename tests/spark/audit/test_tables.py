"""Tables and printed lines of an audit: every row fits its columns, and nobody's text is obeyed."""

from __future__ import annotations

import random

from chaos.kit.losing import LOSSES, played
from chaos.kit.losses import LOSSES as ALL
from halfhitch.verify.report import Violation
from halfhitch_spark.audit.tables import printed, tables
from harness.spark_audit import by_spark

assert ALL is LOSSES


def test_every_row_has_its_columns_and_groups_add_up(rng: random.Random) -> None:
    world = played(rng.randrange(2**32))
    LOSSES["doubled"].spoil(world)
    world.prepare(2)
    result = by_spark(world)
    found = {table.name: table for table in tables(result, 0.5)}
    for table in found.values():
        assert all(len(row) == len(table.columns) for row in table.rows), table.name
    (summary,) = found["summary"].rows
    whole = dict(zip(found["summary"].columns, summary, strict=True))
    assert (whole["verdict"], whole["doubled"], whole["clean"]) == ("not_clean", 1, False)
    groups = [dict(zip(found["groups"].columns, row, strict=True)) for row in found["groups"].rows]
    for name in ("transactions", "ended", "judged", "committed", "unfinished", "doubled"):
        assert sum(group[name] for group in groups) == whole[name]
    topics = {row[0]: row for row in found["topics"].rows}
    assert topics["orders"][1] == "target"
    assert sum(row[-1] for row in topics.values()) >= 1
    assert {row[0] for row in found["distributions"].rows} == {"to_end_ms"}


def test_what_is_printed_is_in_lines_of_our_own(rng: random.Random) -> None:
    world = played(rng.randrange(2**32))
    LOSSES["doubled"].spoil(world)
    result = by_spark(world)
    clean = printed(by_spark(played(1)), 0.5).splitlines()
    assert clean[0].split() == ["verdict", "clean"]
    (group,) = (g for g, f in result.findings.items() if f.violations)
    (one,) = result.findings[group].violations
    evil = Violation(one.kind, "a\x1b[2Jb", "t\nclean", one.indexes, one.where, one.detail)
    result.findings[group].violations[0] = evil
    lines = printed(result, 0.5).splitlines()
    assert lines[0].split() == ["verdict", "NOT", "CLEAN"]
    assert any(r"t\nclean of a\x1b[2Jb" in line for line in lines)
    assert "\x1b" not in "".join(lines)
