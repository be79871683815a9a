"""The queue keeps the last word, gives it back when it was not written, and never grows."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from halfhitch.adapters.redis import outbox as module
from halfhitch.adapters.redis.outbox import Clearing, Outbox
from halfhitch.adapters.redis.presence import PresenceTable
from harness.redis_worlds import doubt, identity

if TYPE_CHECKING:
    import random


def made(*, entries_max: int = 1_000, is_clear: bool = True, partitions: int = 1) -> Outbox:
    outbox = Outbox(entries_max=entries_max, posts_bytes_max=1_000)
    for partition in range(partitions):
        outbox.own(partition)
        assert outbox.wants_all(partition, is_healthy=True)
        if is_clear:
            outbox.cleared(partition, Clearing.LIST)
    return outbox


def words(outbox: Outbox, count_max: int = 1_000, *, settled_only: bool = False) -> list[str]:
    taken = outbox.take(count_max, settled_only=settled_only)
    return [("" if e.doubt else "-") + e.identity[1] for e in taken.entries]


def test_the_last_word_counts() -> None:
    outbox = made()
    outbox.doubtful(0, [doubt("a"), doubt("b")])
    outbox.settled(0, [identity("a"), identity("c")])
    outbox.doubtful(0, [doubt("b", due_ms=7)])
    taken = outbox.take(100).entries
    assert {(e.identity[1], e.doubt and e.doubt.due_ms) for e in taken} == {
        ("a", None),
        ("b", 7),
        ("c", None),
    }
    assert outbox.take(100).entries == []


def test_what_was_not_written_comes_back_behind_newer_words() -> None:
    outbox = made()
    outbox.doubtful(0, [doubt("a"), doubt("b")])
    outbox.post("i", "check", b"1")
    batch = outbox.take(100)
    outbox.settled(0, [identity("a")])
    outbox.post("i", "check", b"2")
    outbox.put_back(batch)
    again = outbox.take(100)
    assert {(e.identity[1], e.doubt is None) for e in again.entries} == {("a", True), ("b", False)}
    assert [post.body for post in again.posts] == [b"1", b"2"]


def test_nothing_is_taken_of_a_partition_that_must_be_cleared_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_REBUILD_S", 0.0)
    outbox = made(is_clear=False)
    outbox.doubtful(0, [doubt("a")])
    assert outbox.to_clear() == [(0, Clearing.LIST)]
    assert words(outbox) == []
    outbox.cleared(0, Clearing.ALL)  # of another kind: does not count
    assert words(outbox) == []
    outbox.cleared(0, Clearing.LIST)
    assert words(outbox) == ["a"]
    outbox.rebuild()
    assert outbox.to_clear() == [(0, Clearing.ALL)]
    assert outbox.wants_all(0, is_healthy=True)
    assert not outbox.wants_all(0, is_healthy=True)


def test_only_what_is_settled_can_be_taken() -> None:
    outbox = made()
    outbox.doubtful(0, [doubt("a")])
    outbox.settled(0, [identity("b")])
    assert words(outbox, settled_only=True) == ["-b"]
    assert words(outbox) == ["a"]


def test_a_large_partition_leaves_room_for_the_others() -> None:
    outbox = made(partitions=2)
    outbox.doubtful(0, [doubt(f"a{n}") for n in range(100)])
    outbox.doubtful(1, [doubt("b")])
    assert words(outbox, 10) == [*(f"a{n}" for n in range(5)), "b"]


def test_too_much_is_dropped_whole_and_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REBUILD_PAUSE_S", 0.0)
    outbox = made(entries_max=10)
    assert outbox.has_room(5)
    assert not outbox.has_room(6)
    outbox.doubtful(0, [doubt("taken")])
    in_flight = outbox.take(1)
    outbox.doubtful(0, [doubt(f"t{n}") for n in range(11)])
    assert outbox.overflow_count == 1
    outbox.settled(0, [identity("taken")])  # deaf: the owner will begin anew
    outbox.doubtful(0, [doubt("u")])
    assert not outbox.wants_all(0, is_healthy=False)
    assert outbox.wants_all(0, is_healthy=True)
    # What failed to be written before the new beginning may have been settled unheard.
    outbox.put_back(in_flight)
    outbox.cleared(0, Clearing.ALL)
    assert words(outbox) == []
    outbox.doubtful(0, [doubt("u")])
    assert words(outbox) == ["u"]


def test_everything_is_asked_for_no_more_than_once_a_second() -> None:
    outbox = made()
    outbox.rebuild()
    begin_s = time.monotonic()
    assert not outbox.wants_all(0, is_healthy=True)
    while not outbox.wants_all(0, is_healthy=True):
        assert time.monotonic() - begin_s < 30
        time.sleep(0.01)
    assert time.monotonic() - begin_s > 0.5


def test_an_owner_that_is_too_fast_is_asked_again_only_after_a_pause() -> None:
    outbox = made(entries_max=10)
    outbox.doubtful(0, [doubt(f"t{n}") for n in range(11)])
    assert not outbox.wants_all(0, is_healthy=True)


def test_what_is_said_of_a_partition_that_is_not_ours_is_ignored() -> None:
    outbox = made()
    outbox.doubtful(1, [doubt("a")])
    outbox.doubtful(0, [doubt("b")])
    in_flight = outbox.take(10)
    outbox.doubtful(0, [doubt("c")])
    outbox.release(0)
    assert outbox.take_released() == [0]
    assert outbox.take_released() == []
    outbox.own(0)
    outbox.cleared(0, Clearing.LIST)
    outbox.put_back(in_flight)
    assert words(outbox) == []
    assert outbox.owned() == [0]


def test_posts_are_bounded_by_their_bytes_and_by_their_age(monkeypatch: pytest.MonkeyPatch) -> None:
    outbox = made()
    assert outbox.post("i", "check", b"x" * 600)
    assert not outbox.post("i", "check", b"x" * 600)
    assert outbox.post("i", "check", b"x" * 400)
    assert len(outbox.take(1).posts) == 2
    assert outbox.post("i", "check", b"x" * 1_000)
    monkeypatch.setattr(module, "_POST_AGE_S_MAX", -1.0)
    assert outbox.take(1).posts == []


def test_a_wait_ends_at_once_for_what_is_urgent() -> None:
    outbox = made()
    outbox.take(1)
    outbox.wait(0.0, 0.0)  # what `own` had said
    threading.Timer(0.05, lambda: outbox.post("i", "check", b"")).start()
    begin_s = time.monotonic()
    outbox.wait(10.0, 10.0)
    assert time.monotonic() - begin_s < 5


def test_words_from_many_threads_are_all_counted(rng: random.Random) -> None:
    outbox = made(entries_max=100_000, partitions=4)
    written: dict[tuple[int, str], bool] = {}
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            batch = outbox.take(50)
            if batch.entries and rng.random() < 0.3:
                outbox.put_back(batch)
            else:
                for entry in batch.entries:
                    written[entry.partition, entry.identity[1]] = entry.doubt is not None

    def speak(partition: int) -> None:
        for number in range(500):
            outbox.doubtful(partition, [doubt(f"t{number}")])
            if number % 3 == 0:
                outbox.settled(partition, [identity(f"t{number}")])

    writer = threading.Thread(target=write)
    speakers = [threading.Thread(target=speak, args=(partition,)) for partition in range(4)]
    for thread in (writer, *speakers):
        thread.start()
    for thread in speakers:
        thread.join(30)
    deadline_s = time.monotonic() + 30
    expected = {(p, f"t{n}"): n % 3 != 0 for p in range(4) for n in range(500)}
    while written != expected and time.monotonic() < deadline_s:
        time.sleep(0.01)
    stop.set()
    writer.join(30)
    assert written == expected


def test_presence_tells_news_once_and_takes_only_names() -> None:
    table = PresenceTable("me")
    assert table.announce(["a", "b"])
    assert not table.announce(["b", "a"])
    assert table.announce(["b", "c"])
    announced, withdrawn = table.to_announce()
    assert (set(announced), withdrawn) == ({"b", "c"}, {"a"})
    assert table.to_announce()[1] == set()
    table.withdraw_again(["a", "b"])
    assert table.to_announce()[1] == {"a"}
    assert table.instances("g") == ((), True)
    assert table.instances("g") == ((), False)
    assert table.to_ask() == ["g"]
    table.heard("g", [b"you", b"me", b"\xff", b"", b"x" * 2_000, "text", None, b"him"])
    assert table.instances("g") == (("him", "you"), False)
    table.heard("g", None)
    assert table.instances("g") == ((), False)


def test_a_list_is_whole_once_all_that_was_told_by_then_has_been_written() -> None:
    outbox = made()
    outbox.doubtful(0, [doubt("a"), doubt("b"), doubt("c")])
    assert words(outbox, 1) == ["a"]
    outbox.told_all(0)
    assert words(outbox, 1) == ["b"]
    outbox.doubtful(0, [doubt("d"), doubt("c", due_ms=9)])  # never nothing to write
    assert words(outbox, 1) == ["c"]
    assert outbox.whole() == [], "the last one is on its way"
    assert words(outbox, 1) == ["d"]
    assert outbox.whole() == [(0, 1)]
    outbox.doubtful(0, [doubt("e")])
    outbox.told_all(0)
    words(outbox)
    assert outbox.whole() == [(0, 1)]


def test_a_list_of_which_a_part_was_not_written_is_not_whole() -> None:
    outbox = made()
    outbox.doubtful(0, [doubt("a")])
    outbox.told_all(0)
    batch = outbox.take(10)
    outbox.put_back(batch)
    assert words(outbox, 0) == []
    assert outbox.whole() == []
    words(outbox)
    words(outbox)
    assert outbox.whole() == [(0, 1)]


def test_another_list_has_another_number_and_none_while_it_is_not_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_REBUILD_S", 0.0)
    outbox = made(partitions=2)
    for partition in (0, 1):
        outbox.told_all(partition)
    words(outbox)
    assert outbox.whole() == [(0, 1), (1, 2)]
    outbox.rebuild([0])
    outbox.told_all(0)  # of what was wanted before
    outbox.cleared(0, Clearing.ALL)
    words(outbox)
    assert outbox.whole() == [(1, 2)]
    assert outbox.wants_all(0, is_healthy=True)
    words(outbox)
    assert outbox.whole() == [(1, 2)]
    outbox.told_all(0)
    words(outbox)
    assert outbox.whole() == [(0, 3), (1, 2)]
    outbox.release(1)
    outbox.told_all(1)
    assert outbox.whole() == [(0, 3)]
