"""The one thread that writes to Redis, in batches, and that notices when Redis is not itself.

Owns the writer's connection and the state that people see (`healthy`, `trouble`). A turn is one
pipeline between canaries: entries, posts, and once a second the pulse (presence, ownership, who
else is there). Invariants: nothing raises out of a turn; after a failed turn everything taken goes
back, and only pulses are tried until one succeeds; a partition is cleared before anything is
written to it; a thousand entries at a time with a rest in between, so that a rebuild leaves the
processor to the coordinator.
"""

import logging
import threading
import time
from collections import defaultdict
from functools import partial
from typing import Any, Final

from redis.exceptions import OutOfMemoryError

from halfhitch.adapters.redis import connect, doubts
from halfhitch.adapters.redis.address import RedisAddress
from halfhitch.adapters.redis.canary import GARBAGE
from halfhitch.adapters.redis.keys import (
    INBOX_KEPT_S,
    PRESENCE_S,
    PRODUCERS_KEPT_S,
    Keys,
    identity_of,
    member_of,
    quoted,
)
from halfhitch.adapters.redis.namesake import Namesake
from halfhitch.adapters.redis.outbox import Batch, Clearing, Entry, Outbox, Post
from halfhitch.adapters.redis.pipeline import Work
from halfhitch.adapters.redis.presence import PresenceTable
from halfhitch.adapters.redis.watch import Watch
from halfhitch.ports import Observer

logger = logging.getLogger(__name__)

PULSE_S: Final = 1.0
#: Entries are given time to gather, since a later word about the same transaction saves the
#: earlier one: at first little, then, while they keep coming, more.
_GATHER_S: Final = 0.05
_ENTRIES_S: Final = 0.2
_ENTRIES_MAX: Final = 1_000
_WAIT_S: Final = 1.0
_PAUSE_S: Final = 0.2
_PAUSE_S_MAX: Final = 1.0
_REST_S_MAX: Final = 0.1
_AWAY_S: Final = 2.5  # the queue holds all that was missed in a shorter absence
#: About so many; they are bounded by the checks under way, and expire with the inbox.
_INBOX_LENGTH: Final = 10_000
_PAGE: Final = 1_000
_PAGES_A_TURN: Final = 20
_KEEP_ALIVE_S: Final = 60.0

UNMARKED: Final = "unmarked"
_REASONS: Final = {
    "wiped": "it was wiped",
    "old": "it holds an older state, as after restoring a dump",
    "away": "it was away",
    "garbage": "it held something that is not ours",
    "overflow": "more came than it could take",
    UNMARKED: "its mark of a whole list was gone, as after another owner has begun a list",
}


class Writer:
    """Started and stopped by RedisIndex."""

    _keys: Keys  # these three since the start
    _watch: Watch
    #: Whether it is the only one of its name.
    namesake: Namesake

    def __init__(
        self,
        address: RedisAddress,
        instance: str,
        *,
        outbox: Outbox,
        presence: PresenceTable,
        observer: Observer,
        kept_s: int,
    ) -> None:
        self._address = address
        self._instance = instance
        self._outbox = outbox
        self._presence = presence
        self._observer = observer
        self._kept_s = kept_s
        self.healthy = False
        self.trouble: str | None = f"Redis at {address.label} has not answered yet."
        self._told: bool | None = None
        self._is_full = False
        self._last_good_s: float | None = None
        self._pause_s = _PAUSE_S
        self._client: connect.Client | None = None
        self._clock_ahead_ms = 0  # Redis's clock minus our monotonic one
        self._next_pulse_s = 0.0
        self._next_entries_s = 0.0
        self._next_keep_alive_s = 0.0
        self._overflow_count = 0
        self._garbage: set[int] = set()  # partitions whose list was of the wrong type
        self._marked: dict[int, int] = {}  # partition -> number of the list that has its mark
        self._unmarked_s: dict[int, float] = {}  # partition -> since when its mark is gone
        self._given_up: set[str] = set()  # owner keys that still name us
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="redis-writer", daemon=True)

    def start(self, keys: Keys) -> None:
        """Begin."""
        self._keys = keys
        self._watch = Watch(keys, self._instance)
        name = keys.name(self._instance)
        self.namesake = Namesake(self._instance, name, self._watch.nonce)
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to take our traces out of Redis and end."""
        self._stopping.set()
        self._outbox.wake(is_urgent=True)

    def join(self, at_most_s: float) -> None:
        """Wait for its end."""
        if self._thread.ident is not None:
            self._thread.join(at_most_s)

    def pulse_now(self) -> None:
        """Something is worth saying or asking before the next second."""
        self._next_pulse_s = 0.0
        self._outbox.wake(is_urgent=True)

    @property
    def now_ms(self) -> int:
        """Redis's clock, as far as we know it."""
        return round(time.monotonic() * 1000) + self._clock_ahead_ms

    # -- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            if self.healthy:
                now_s = time.monotonic()
                if now_s < self._next_pulse_s:
                    gather_s = max(_GATHER_S, self._next_entries_s - now_s)
                    self._outbox.wait(self._next_pulse_s - now_s, gather_s)
            if not self._stopping.is_set():
                self._turn()
        if self.healthy:
            try:
                self._leave()
            except Exception as error:  # noqa: BLE001 - as in a turn; all keys expire anyway
                logger.info(
                    "%s",
                    connect.sentence(error, self._address),
                    extra={"action": "redis_not_left"},
                )
        self.healthy, self.trouble = False, "Redis is not used any more: this instance stops."
        connect.close(self._client)

    def _turn(self) -> None:
        begin_s = time.monotonic()
        batch = Batch()
        try:
            if self._client is None:
                self._client = connect.connect(self._address, wait_s=_WAIT_S)
            is_pulse = not self.healthy or begin_s >= self._next_pulse_s
            if is_pulse:
                now_ms = connect.server_time_ms(self._client)
                self._clock_ahead_ms = now_ms - round(time.monotonic() * 1000)
                self._next_pulse_s = begin_s + PULSE_S
            if self.healthy:
                self._clear()
                is_time = begin_s >= self._next_entries_s
                batch = self._outbox.take(_ENTRIES_MAX if is_time else 0)
                if is_time and len(batch.entries) < _ENTRIES_MAX // 2:
                    self._next_entries_s = begin_s + _ENTRIES_S
            elif self._is_full:
                # Only these make room again.
                batch = self._outbox.take(_ENTRIES_MAX, settled_only=True)
            self._write(batch, is_pulse=is_pulse)
        except Exception as error:  # noqa: BLE001 - redis-py raises many kinds; all mean the same
            self._failed(error, batch)
        else:
            self._succeeded(begin_s)
            if len(batch.entries) >= _ENTRIES_MAX // 2:
                self._stopping.wait(min(_REST_S_MAX, time.monotonic() - begin_s))

    def _succeeded(self, begin_s: float) -> None:
        overflow_count, self._overflow_count = self._overflow_count, self._outbox.overflow_count
        last_good_s, self._last_good_s = self._last_good_s, time.monotonic()
        if self.healthy:
            if self._overflow_count > overflow_count:
                self._say("overflow")
            return
        self._pause_s = _PAUSE_S
        self._is_full = False
        if last_good_s is not None and begin_s - last_good_s > _AWAY_S:
            self._rebuild("away")
        self.trouble, self.healthy = None, True
        logger.info("Redis at %s answers", self._address.label, extra={"action": "redis_answers"})
        self._tell(healthy=True)
        self._outbox.wake(is_urgent=True)

    def _failed(self, error: BaseException, batch: Batch) -> None:
        self._outbox.put_back(batch)
        connect.close(self._client)
        self._client = None
        sentence = connect.sentence(error, self._address)
        if sentence != self.trouble:
            logger.warning("%s", sentence, extra={"action": "redis_trouble"})
        self.healthy, self.trouble = False, sentence
        self._is_full = isinstance(error, OutOfMemoryError)
        self._tell(healthy=False)
        self._stopping.wait(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _PAUSE_S_MAX)

    def _tell(self, *, healthy: bool) -> None:
        if self._told is not healthy:
            self._told = healthy
            self._observer.redis(healthy)

    def _rebuild(
        self,
        reason: str,
        partitions: set[int] | None = None,
        clearing: Clearing = Clearing.ALL,
    ) -> None:
        self._outbox.rebuild(partitions, clearing)
        self._next_pulse_s = 0.0
        self._say(reason)

    def _say(self, reason: str) -> None:
        logger.warning(
            "what Redis holds of undecided transactions is written anew: %s",
            _REASONS[reason],
            extra={"action": "redis_rebuild", "reason": reason},
        )
        self._observer.redis_rebuilt(reason)

    # -- what is written -------------------------------------------------------------------------

    def _write(self, batch: Batch, *, is_pulse: bool) -> None:
        work = Work()
        self._watch.open(self._client, work)
        self._add_entries(work, batch.entries)
        for post in batch.posts:
            self._add_post(work, post)
        withdrawn = self._add_pulse(work) if is_pulse else set()
        try:
            self._run_watched(work)
        except Exception:
            self._presence.withdraw_again(withdrawn)
            raise

    def _run_watched(self, work: Work) -> None:
        """`work` was opened by the watch: deletions, too, may lie in a paused server's buffer."""
        self._garbage.clear()
        self._watch.close(work)
        work.run(self._client)
        reason = self._watch.judge()
        if reason is not None:
            self._rebuild(reason)
        elif self._garbage:
            self._rebuild(GARBAGE, set(self._garbage))

    def _add_entries(self, work: Work, entries: list[Entry]) -> None:
        scores: defaultdict[int, list[Any]] = defaultdict(list)
        gone: defaultdict[int, list[str]] = defaultdict(list)
        for entry in entries:
            member = member_of(entry.identity)
            if entry.doubt is None:
                gone[entry.partition].append(member)
                continue
            scores[entry.partition] += (entry.doubt.due_ms, member)
            key = self._keys.tx(entry.partition, member)
            again = partial(self._outbox.put_back, Batch([entry]))
            work.add("HSET", key, *doubts.write(entry.doubt), key=key, repair=again)
            work.add("EXPIRE", key, self._kept_s)
        for partition, pairs in scores.items():
            due = self._keys.due(partition)
            work.add("ZADD", due, *pairs, key=due, repair=partial(self._garbage.add, partition))
            work.add("EXPIRE", due, self._kept_s)
        for partition, members in gone.items():
            due = self._keys.due(partition)
            work.add("ZREM", due, *members, key=due, repair=partial(self._garbage.add, partition))
            work.unlink(
                [self._keys.tx(partition, member) for member in members],
                is_cluster=connect.is_cluster(self._client),
            )

    def _add_post(self, work: Work, post: Post) -> None:
        inbox = self._keys.inbox(post.instance)
        again = partial(self._outbox.put_back, Batch(posts=[post]))
        work.add(
            *("XADD", inbox, "MAXLEN", "~", _INBOX_LENGTH, "*", "k", post.kind, "b", post.body),
            key=inbox,
            repair=again,
        )
        work.add("EXPIRE", inbox, INBOX_KEPT_S)

    def _add_pulse(self, work: Work) -> set[str]:
        """Gives the groups that are withdrawn by it."""
        presence_ms = round(PRESENCE_S * 1000)
        keeps_alive = time.monotonic() >= self._next_keep_alive_s
        for partition in self._outbox.owned():
            work.add("SET", self._keys.owner(partition), self._instance, "PX", presence_ms)
            if keeps_alive:
                work.add("EXPIRE", self._keys.due(partition), self._kept_s)
        for partition, number in self._outbox.whole():
            self._add_mark(work, partition, number, presence_ms)
        if keeps_alive:
            self._next_keep_alive_s = time.monotonic() + _KEEP_ALIVE_S
        work.unlink(self._given_up, is_cluster=connect.is_cluster(self._client))
        self._given_up = set()
        for partition in self._outbox.take_released():
            # Two steps, for there is no compare-and-delete without scripts: the next owner writes
            # its name again within a second if we wipe it out.
            key = self._keys.owner(partition)
            work.add("GET", key, read=partial(self._give_up, partition))
        self.namesake.add(work)
        now_ms = self.now_ms
        announced, withdrawn = self._presence.to_announce()
        for group in announced:
            key = self._keys.producers(group)
            expiry_ms = now_ms + presence_ms
            work.add("ZADD", key, expiry_ms, self._instance, key=key, repair=self.pulse_now)
            work.add("ZREMRANGEBYSCORE", key, "-inf", now_ms, key=key)
            work.add("EXPIRE", key, PRODUCERS_KEPT_S)
        for group in withdrawn:
            key = self._keys.producers(group)
            work.add("ZREM", key, self._instance, key=key)
        for group in self._presence.to_ask():
            key = self._keys.producers(group)
            work.add(
                *("ZRANGEBYSCORE", key, f"({now_ms}", "+inf", "LIMIT", 0, 1_000),
                key=key,
                read=partial(self._presence.heard, group),
            )
        return withdrawn

    def _add_mark(self, work: Work, partition: int, number: int, presence_ms: int) -> None:
        """Only its first word makes a mark. One that is gone was taken away for another owner's new
        list, and an owner that does not know yet that it is none must not call that one whole."""
        mark = f"{quoted(self._instance)}:{self._watch.nonce}:{number}"
        is_new = self._marked.get(partition) != number
        command = ("SET", self._keys.whole(partition), mark, "PX", presence_ms)
        read = partial(self._heard_mark, partition, number)
        work.add(*command, *(() if is_new else ("XX",)), read=read)

    def _heard_mark(self, partition: int, number: int, answer: object) -> None:
        self._marked[partition] = number
        now_s = time.monotonic()
        if answer is not None:
            self._unmarked_s.pop(partition, None)
        elif now_s - self._unmarked_s.setdefault(partition, now_s) >= PRESENCE_S:
            # An owner in error has learned of it by now. Another one's hashes stay, to be safe.
            self._unmarked_s.pop(partition)
            self._rebuild(UNMARKED, {partition}, Clearing.LIST)

    def _give_up(self, partition: int, answer: object) -> None:
        if answer == self._instance.encode():
            self._given_up |= {self._keys.owner(partition), self._keys.whole(partition)}
            self._next_pulse_s = 0.0

    # -- what is deleted -------------------------------------------------------------------------

    def _clear(self) -> None:
        for partition, clearing in self._outbox.to_clear():
            work = Work()
            # An error among its answers must not pass: the mark would outlive its list.
            work.add("UNLINK", self._keys.whole(partition))
            work.run(self._client)
            if clearing is Clearing.ALL and not self._clear_hashes(partition):
                continue  # the rest in the next turn
            work = Work()
            self._watch.open(self._client, work)
            work.add("UNLINK", self._keys.due(partition))
            self._run_watched(work)
            self._outbox.cleared(partition, clearing)

    def _clear_hashes(self, partition: int) -> bool:
        """Delete the hashes that the list names, and what it names; True when it is empty."""
        due = self._keys.due(partition)
        for _ in range(_PAGES_A_TURN):
            (members,) = connect.run(self._client, [("ZRANGE", due, 0, _PAGE - 1)])
            if connect.is_garbage(members) or not members:
                return True
            if isinstance(members, Exception):
                raise members
            work = Work()
            self._watch.open(self._client, work)
            work.add("ZREM", due, *members)
            work.unlink(
                [
                    self._keys.tx(partition, member.decode())
                    for member in members
                    if identity_of(member) is not None
                ],
                is_cluster=connect.is_cluster(self._client),
            )
            self._run_watched(work)
        return False

    def _leave(self) -> None:
        """Others should not go on sending us checks; whatever this misses expires."""
        self._write(Batch(posts=self._outbox.take(0).posts), is_pulse=False)
        # A desk that stops has withdrawn its groups already, but no turn may have written that.
        announced, withdrawn = self._presence.to_announce()
        owned = self._outbox.owned()
        work = Work()
        for group in announced | withdrawn:
            work.add("ZREM", self._keys.producers(group), self._instance)
        for partition in owned:
            key = self._keys.owner(partition)
            work.add("GET", key, read=partial(self._give_up, partition))
        # So that our own reader, which waits there, wakes up and ends.
        self._add_post(work, Post(self._instance, "", b"", 0.0))
        work.run(self._client)
        work = Work()
        work.unlink(
            [
                *self._given_up,
                self._keys.inbox(self._instance),
                self.namesake.key,  # one that is still there writes its own within a second
                *self._watch.keys(self._client),
            ],
            is_cluster=connect.is_cluster(self._client),
        )
        work.run(self._client)
