"""A RocketMQ client for tests: requests by hand over one connection, in either form of header.

It does what Java's producers do and nothing by itself: no heartbeat, no retry, no local
transaction. What the server asks (checks) waits in `checks`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.checking import Check, read_check
from halfhitch.wire.remoting.frame import Frames, encode, request
from halfhitch.wire.remoting.ids import read_message_id
from halfhitch.wire.remoting.messages import EncodedMessage, decode_message
from halfhitch.wire.remoting.properties import write_properties
from halfhitch.wire.remoting.requests import Form, Frame
from halfhitch.wire.remoting.signature import sign

if TYPE_CHECKING:
    import ssl
    from types import TracebackType

DEADLINE_S = 15.0
#: As Java's client 5.3.3 says it.
VERSION = 479


@dataclass
class Sent:
    """What a producer keeps of the answer to a half message."""

    code: int
    remark: str | None
    fields: dict[str, str]

    @property
    def state_offset(self) -> int:
        assert "queueOffset" in self.fields, f"not stored: {self.code}, {self.remark}"
        return int(self.fields["queueOffset"])

    @property
    def commit_log_offset(self) -> int:
        """As Java reads it: out of the message id."""
        return read_message_id(self.fields["msgId"])[2]


@dataclass
class RemotingClient:
    """One connection. Use as a context manager."""

    port: int
    host: str = "127.0.0.1"
    form: Form = Form.BINARY
    version: int = VERSION
    access_key: str | None = None
    secret_key: str = ""
    tls: ssl.SSLContext | None = None
    #: The address that it comes from.
    local: str | None = None
    checks: asyncio.Queue[tuple[Check, EncodedMessage]] = field(default_factory=asyncio.Queue)
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.wait_for(
            asyncio.open_connection(
                self.host,
                self.port,
                ssl=self.tls,
                server_hostname="" if self.tls else None,
                local_addr=None if self.local is None else (self.local, 0),
            ),
            DEADLINE_S,
        )
        self._frames = Frames()
        self._opaque = 0
        self._waiting: dict[int, asyncio.Future[Frame]] = {}
        self._task = asyncio.ensure_future(self._read())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._task.cancel()
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _read(self) -> None:
        try:
            while data := await self._reader.read(65_536):
                for frame in self._frames.feed(data):
                    self._take(frame)
        except OSError:
            pass
        finally:
            self.closed.set()
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionError("the server has closed"))

    def _take(self, frame: Frame) -> None:
        if frame.is_response:
            waiting = self._waiting.pop(frame.opaque, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(frame)
        elif frame.code == codes.CHECK_TRANSACTION_STATE:
            self.checks.put_nowait((read_check(frame), decode_message(frame.body)))

    # -- requests --------------------------------------------------------------------------------

    def send(
        self,
        code: int,
        fields: dict[str, str] | None = None,
        body: bytes = b"",
        flag: int = 0,
        remark: str | None = None,
    ) -> int:
        """Write a request and wait for nothing; its number."""
        self._opaque += 1
        fields = dict(fields or {})
        if self.access_key is not None:
            fields["AccessKey"] = self.access_key
            fields["Signature"] = sign(fields, body, self.secret_key)
        frame = request(code, self._opaque, fields, body, flag=flag, remark=remark, form=self.form)
        frame.version = self.version
        frame.language = 0
        self._writer.write(encode(frame))
        return self._opaque

    def raw(self, data: bytes) -> None:
        """Bytes that need be no frame."""
        self._writer.write(data)

    async def ask(
        self, code: int, fields: dict[str, str] | None = None, body: bytes = b""
    ) -> Frame:
        """Write a request and wait for its answer."""
        future: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._waiting[self.send(code, fields, body)] = future
        return await asyncio.wait_for(future, DEADLINE_S)

    # -- what producers ask ----------------------------------------------------------------------

    async def route(self, topic: str, **more: str) -> tuple[int, dict[str, Any]]:
        answer = await self.ask(codes.GET_ROUTE_INFO_BY_TOPIC, {"topic": topic, **more})
        return answer.code, json.loads(answer.body) if answer.body else {"remark": answer.remark}

    async def heartbeat(self, *groups: str, **fields: str) -> Frame:
        body = {
            "clientID": "10.0.0.1@1#1",
            "producerDataSet": [{"groupName": name} for name in (*groups, "CLIENT_INNER_PRODUCER")],
            "consumerDataSet": [],
            "heartbeatFingerprint": 0,
        }
        return await self.ask(codes.HEART_BEAT, fields, json.dumps(body).encode())

    async def unregister(self, group: str) -> Frame:
        fields = {"clientID": "10.0.0.1@1#1", "producerGroup": group}
        return await self.ask(codes.UNREGISTER_CLIENT, fields)

    async def put(
        self,
        group: str,
        topic: str,
        body: bytes,
        properties: dict[str, str] | None = None,
        *,
        unique: str | None = None,
        code: int = codes.SEND_MESSAGE_V2,
        transactional: bool = False,
        **fields: str,
    ) -> Sent:
        """Send a message; a half message when `transactional`."""
        given = dict(properties or {})
        if unique is not None:
            given["UNIQ_KEY"] = unique
        if transactional:
            given |= {"TRAN_MSG": "true", "PGROUP": group}
        values = {
            "a": group, "b": topic, "c": "TBW102", "d": "4", "e": "0",
            "f": "4" if transactional else "0", "g": "1700000000000", "h": "0",
            "i": write_properties(given), "j": "0", "k": "false", "m": "false", **fields,
        }  # fmt: skip
        if code == codes.SEND_MESSAGE:
            values = {_LONG_NAMES.get(name, name): value for name, value in values.items()}
        answer = await self.ask(code, values, body)
        return Sent(answer.code, answer.remark, answer.fields)

    async def half(
        self,
        group: str,
        topic: str,
        body: bytes,
        properties: dict[str, str] | None = None,
        **options: Any,
    ) -> Sent:
        return await self.put(group, topic, body, properties, transactional=True, **options)

    def end_fields(
        self, group: str, sent: Sent | Check, decision: int, unique: str | None = None, **more: str
    ) -> dict[str, str]:
        """Of a request to end what was sent, or what was asked about."""
        is_check = isinstance(sent, Check)
        known = sent.transaction_id if is_check else sent.fields.get("transactionId", "")
        return {
            "producerGroup": group,
            "tranStateTableOffset": str(sent.state_offset),
            "commitLogOffset": str(sent.commit_log_offset),
            "commitOrRollback": str(decision),
            "fromTransactionCheck": "true" if is_check else "false",
            "msgId": unique or known,
            "transactionId": known,
            "bname": "halfhitch",
            **more,
        }

    def end(
        self,
        group: str,
        sent: Sent | Check,
        decision: int,
        remark: str | None = None,
        **more: str,
    ) -> None:
        """One-way, as Java's client does it."""
        fields = self.end_fields(group, sent, decision, **more)
        self.send(codes.END_TRANSACTION, fields, flag=codes.ONE_WAY_FLAG, remark=remark)

    async def end_sync(self, group: str, sent: Sent | Check, decision: int, **more: str) -> Frame:
        """With an answer."""
        fields = self.end_fields(group, sent, decision, **more)
        return await self.ask(codes.END_TRANSACTION, fields)

    async def next_check(self) -> tuple[Check, EncodedMessage]:
        return await asyncio.wait_for(self.checks.get(), DEADLINE_S)


_LONG_NAMES = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
    "j": "reconsumeTimes",
    "k": "unitMode",
    "m": "batch",
}
