"""Commands for one round trip, and what was found to be garbage."""

from typing import Any, Self

import pytest
from redis.exceptions import RedisError, ResponseError

from halfhitch.adapters.redis.pipeline import Work

WRONG_TYPE = ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value")


class Server:
    """Answers by the commands' first words; keeps what it was asked."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[Any, ...]] = []
        self._commands: list[tuple[Any, ...]] = []

    def pipeline(self, *, transaction: bool) -> "Server":
        assert not transaction
        return self

    def __enter__(self) -> Self:
        self._commands = []
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute_command(self, *command: Any) -> None:
        self._commands.append(command)

    def execute(self, *, raise_on_error: bool) -> list[Any]:
        assert not raise_on_error
        self.asked += self._commands
        return [self.answers.get(command[0], b"OK") for command in self._commands]


def test_each_answer_goes_to_who_asked() -> None:
    server: Any = Server(GET=b"1", TIME=[7, 8])
    got: list[Any] = []
    work = Work()
    work.add("GET", "a", read=got.append)
    work.add("SET", "b", "2")
    work.add("TIME", read=got.append)
    work.run(server)
    assert got == [b"1", [7, 8]]
    assert [command[0] for command in server.asked] == ["GET", "SET", "TIME"]


def test_a_key_of_another_type_is_deleted_and_written_again_by_who_added_it() -> None:
    server: Any = Server(HSET=WRONG_TYPE, GET=b"1")
    repaired: list[str] = []
    got: list[Any] = []
    work = Work()
    work.add("HSET", "tx", key="tx", repair=lambda: repaired.append("tx"), read=got.append)
    work.add("GET", "a", read=got.append)
    work.run(server)
    assert repaired == ["tx"]
    assert server.asked[-1] == ("UNLINK", "tx")
    assert got == [b"1"], "an error is no answer"


def test_any_other_error_of_a_command_fails_the_work() -> None:
    server: Any = Server(SET=ResponseError("OOM command not allowed"))
    work = Work()
    work.add("SET", "a", "1", key="a")
    with pytest.raises(ResponseError, match="OOM"):
        work.run(server)


def test_answers_that_are_missing_are_no_success() -> None:
    class Silent(Server):
        def execute(self, *, raise_on_error: bool) -> list[Any]:
            return super().execute(raise_on_error=raise_on_error)[:-1]

    server: Any = Silent()
    work = Work()
    work.add("SET", "a", "1")
    work.add("SET", "b", "1")
    with pytest.raises(RedisError, match="answers are missing"):
        work.run(server)


def test_in_a_cluster_each_key_is_deleted_by_a_command_of_its_own() -> None:
    for is_cluster, asked in (
        (True, [("UNLINK", "a"), ("UNLINK", "b")]),
        (False, [("UNLINK", "a", "b")]),
    ):
        server: Any = Server()
        work = Work()
        work.unlink(["a", "b"], is_cluster=is_cluster)
        work.unlink([], is_cluster=is_cluster)
        work.run(server)
        assert server.asked == asked
