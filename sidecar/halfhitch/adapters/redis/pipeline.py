"""Commands for one round trip, what to do with each answer, and what was found to be garbage.

Owns `Work`. Invariant: a key of ours that holds something of another type is deleted, and whoever
added the command is told to write it again; any other error of a single command fails the work.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from redis.exceptions import RedisError

from halfhitch.adapters.redis import connect


@dataclass(slots=True)
class _Key:
    name: str
    repair: Callable[[], None] | None


@dataclass(slots=True)
class Work:
    """One pipeline."""

    _commands: list[connect.Command] = field(default_factory=list)
    _keys: dict[int, _Key] = field(default_factory=dict)
    _readers: dict[int, Callable[[Any], None]] = field(default_factory=dict)

    def add(
        self,
        *command: Any,
        key: str | None = None,
        repair: Callable[[], None] | None = None,
        read: Callable[[Any], None] | None = None,
    ) -> None:
        """`key` is deleted if it is of the wrong type, then `repair` is called; `read` takes the
        answer otherwise."""
        position = len(self._commands)
        if key is not None:
            self._keys[position] = _Key(key, repair)
        if read is not None:
            self._readers[position] = read
        self._commands.append(command)

    def unlink(self, keys: Iterable[str], *, is_cluster: bool) -> None:
        """Delete keys; in a Redis Cluster one command must not name keys of several servers."""
        names = list(keys)
        if is_cluster:
            self._commands.extend(("UNLINK", name) for name in names)
        elif names:
            self._commands.append(("UNLINK", *names))

    def run(self, client: connect.Client) -> None:
        """Raises what redis-py raises without an answer, or the first error among the answers."""
        answers = connect.run(client, self._commands)
        garbage: dict[str, _Key] = {}
        for position, answer in enumerate(answers):
            if not isinstance(answer, Exception):
                continue
            key = self._keys.get(position)
            if connect.is_garbage(answer):
                if key is not None:
                    garbage.setdefault(key.name, key)
            else:
                raise answer
        if garbage:
            repairing = Work()
            repairing.unlink(garbage, is_cluster=connect.is_cluster(client))
            repairing.run(client)
        if len(answers) != len(self._commands):
            raise RedisError("answers are missing")
        for position, read in self._readers.items():
            if not isinstance(answers[position], Exception):
                read(answers[position])
        for key in garbage.values():
            if key.repair is not None:
                key.repair()
