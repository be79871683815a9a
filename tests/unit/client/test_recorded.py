"""A barrier's `record` by hand and the producer's block meet by group and transaction id."""

from __future__ import annotations

import gc

import pytest

from halfhitch.client import TransactionMisused
from halfhitch.client.recorded import expect, note


def test_messages_were_committed_while_their_local_transaction_was_open() -> None:
    found = expect("shop", "a")
    found.require_end("a")  # nothing was recorded
    is_open = True
    note("shop", "a", lambda: is_open)
    with pytest.raises(TransactionMisused, match="of a was recorded and is still open"):
        found.require_end("a")
    is_open = False
    found.require_end("a")


def test_ids_are_told_apart_by_group_and_the_last_record_counts() -> None:
    ours, others, again = expect("shop", "a"), expect("bank", "a"), expect("shop", "a")
    note("bank", "a", lambda: True)
    ours.require_end("a")
    note("shop", "a", lambda: True)
    note("shop", "a", lambda: False)
    again.require_end("a")
    with pytest.raises(TransactionMisused):
        others.require_end("a")


def test_what_nobody_commits_any_more_is_forgotten() -> None:
    found = expect("shop", "a")
    note("shop", "a", lambda: True)
    del found
    gc.collect()
    note("shop", "a", lambda: True)  # in another process' block, or in none
    expect("shop", "a").require_end("a")
