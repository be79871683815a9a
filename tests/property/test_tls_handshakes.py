"""Whatever bytes come where a TLS handshake should: the door goes on, and nothing is left of them.

Hypothesis prints how to repeat a failing example.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from halfhitch.doors.http import HttpDoor
from halfhitch.doors.tls import ServerTls
from harness.certificates import Authority
from harness.defaults import http_limits
from harness.fake_transactions import FakeTransactions
from harness.identities import access_with
from harness.raw_http import DEADLINE_S, Client, raw_half

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def hello() -> bytes:
    """What a client says first."""
    client, sent = ssl.create_default_context(), ssl.MemoryBIO()
    shaking = client.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        shaking.do_handshake()
    return sent.read()


class Stage:
    """A door that speaks TLS, on a loop of its own."""

    def __init__(self, runner: asyncio.Runner, authority: Authority) -> None:
        self._run = runner.run
        self.failures: list[dict[str, Any]] = []
        runner.get_loop().set_exception_handler(lambda _, context: self.failures.append(context))
        self._trusting = ssl.create_default_context(cafile=str(authority.certificate))
        tls = ServerTls(authority.issue("property").files(), lambda: 0)
        self.door = HttpDoor(
            FakeTransactions(), port=0, access=access_with(), limits=http_limits(), tls=tls
        )
        self._run(self.door.start())

    def close(self) -> None:
        self._run(self.door.stop(drain_s=0))

    def send(self, pieces: Sequence[bytes]) -> None:
        """The pieces, one after the other, and then no more; until nothing is left of it."""
        self._run(self._send(pieces))
        assert self.failures == []

    async def _send(self, pieces: Sequence[bytes]) -> None:
        listener = self.door._listening._tls_listener
        assert listener is not None
        async with asyncio.timeout(DEADLINE_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.door.port)
            try:
                for piece in pieces:
                    writer.write(piece)
                    await asyncio.sleep(0)
                writer.write_eof()
                await reader.read()
            except OSError:
                pass  # the door was faster
            finally:
                writer.transport.abort()
            while listener.opening_count or self.door.connection_count:
                await asyncio.sleep(0)

    def serves(self) -> bool:
        """Whether a client that speaks properly is answered."""
        return self._run(self._serves())

    async def _serves(self) -> bool:
        async with asyncio.timeout(DEADLINE_S):
            opened = await asyncio.open_connection(
                "127.0.0.1", self.door.port, ssl=self._trusting, server_hostname="localhost"
            )
            client = Client(*opened)
            answer = await client.ask(raw_half())
            await client.close()
            while self.door.connection_count:
                await asyncio.sleep(0)
            return answer.status == 201


@pytest.fixture(scope="module", params=["uvloop", pytest.param("asyncio", marks=pytest.mark.long)])
def stage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    with asyncio.Runner(loop_factory=_LOOPS[request.param]) as runner:
        made = Stage(runner, authority)
        yield made
        assert made.serves()
        made.close()


@st.composite
def handshakes(draw: st.DrawFn) -> list[bytes]:
    """A client's hello, cut, changed, with something behind it, or something else altogether."""
    said = bytearray(hello())
    for at, value in draw(
        st.lists(st.tuples(st.integers(0, len(said) - 1), st.integers(0, 255)), max_size=4)
    ):
        said[at] = value
    end = draw(st.integers(0, len(said)) | st.just(len(said)))
    whole = draw(
        st.just(bytes(said[:end]) + draw(st.binary(max_size=40)))
        | st.binary(max_size=200)
        | st.binary(max_size=200).map(lambda rest: b"\x16\x03\x01" + rest)
    )
    cut = draw(st.integers(0, len(whole)))
    return [whole[:cut], whole[cut:]]


@settings(max_examples=150, deadline=None, print_blob=True)
@given(pieces=handshakes())
def test_no_handshake_harms_the_door(stage: Stage, pieces: list[bytes]) -> None:
    stage.send(pieces)


def test_a_door_that_was_sent_rubbish_serves(stage: Stage) -> None:
    for rubbish in ([b"\x16"], [b"\x16\x03\x01\x00\x05hello"], [b""], [hello()[:-1], b"x"]):
        stage.send(rubbish)
        assert stage.serves()
