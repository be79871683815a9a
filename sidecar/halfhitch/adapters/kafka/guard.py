"""Whether a transactional producer may still have a request under way that nobody waits for.

librdkafka repeats requests silently. When a repeated EndTxn has been answered and the first one
arrives after all, late, it ends whatever Kafka transaction is open by then: half-written steps
become visible, or whole ones vanish. A late TxnOffsetCommit does the same to the watermarks. Only a
new producer epoch makes the broker refuse such requests, so a producer of which this MAY be true is
made anew before it is used again. To suspect one for nothing costs some 30 ms; to trust one wrongly
costs messages.

Owns `Suspicion`, one for each producer: it is fed what was seen and keeps the first reason. Its
senses, in the order of their sharpness:

- log lines of librdkafka: a request that timed out, a working connection that broke. They are
  queued before the request is repeated, so they are there when the commit returns. Of lines that
  are the same librdkafka writes the third and further ones only every half minute, whoever has
  passed over the first two: so the debug lines are listened to as well, which are all written;
- the count of EndTxn requests in the statistics: more than were asked for;
- time: a Kafka transaction that took much longer than usual;
- retriable errors that a call gave back;
- statistics of each broker: requests timed out, answers lost, connections broken. They come once a
  second, so they are the second line only.

`txretries` is no sense: a Kafka transaction that begins while the markers of the last one are being
written is told to try again, and each such answer counts there (0.9 for each transaction under
load). What was answered is not under way.

Pure: no clock, no I/O. Used by one thread, for callbacks are served by the calls of the writer.
"""

import re
from typing import Final

import msgspec

#: Never suspect a Kafka transaction that took less; always one that took more. The longest lies
#: below the socket timeout, after which librdkafka repeats by itself.
_SLOW_MIN_S: Final = 1.0
_SLOW_MAX_S: Final = 3.0
_SLOW_FACTOR: Final = 10.0
_SMOOTHING: Final = 1 / 32

#: While a connection is being made, nothing of a Kafka transaction is under way on it. Without this
#: one dead broker would make every producer suspect for as long as it is dead.
_WAS_BEING_MADE: Final = re.compile(
    r"in state (?:INIT|DOWN|TRY_CONNECT|CONNECT|SSL_HANDSHAKE|APIVERSION_QUERY"
    r"|AUTH_LEGACY|AUTH_HANDSHAKE|AUTH_REQ)\b"
)
#: librdkafka itself has no more use for the connection: that of a bootstrap server, when the
#: broker's own is known.
_LET_GO: Final = "(_DESTROY_BROKER)"


class _Broker(msgspec.Struct, frozen=True):
    """The counters of one connection that matter here."""

    state: str = ""
    tx: int = 0
    rxerrs: int = 0
    req_timeouts: int = 0
    disconnects: int = 0
    req: dict[str, int] = {}


class _Statistics(msgspec.Struct, frozen=True):
    brokers: dict[str, _Broker] = {}


_DECODER: Final = msgspec.json.Decoder(_Statistics)
_NO_BROKER: Final = _Broker()


class Suspicion:
    """See the module's text. `reason` is None as long as nothing speaks against the producer."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._before: dict[str, _Broker] | None = None
        self._ends_asked = 0
        self._began_s = 0.0
        self._usual_s = 0.0

    # -- one Kafka transaction -------------------------------------------------------------------

    def begin(self, now_s: float) -> None:
        """A Kafka transaction begins."""
        self._began_s = now_s

    def end_asked(self) -> None:
        """EndTxn is about to be sent, once as far as we want it."""
        self._ends_asked += 1

    def end(self, now_s: float) -> str | None:
        """It ended well, and callbacks were served since. Gives the reason to suspect, if any."""
        took_s = now_s - self._began_s
        slow_s = min(_SLOW_MAX_S, max(_SLOW_MIN_S, self._usual_s * _SLOW_FACTOR))
        if took_s > slow_s:
            self.note(f"a Kafka transaction took {took_s:.2f} s ({slow_s:.2f} s are unusual)")
        self._usual_s += (took_s - self._usual_s) * _SMOOTHING
        return self.reason

    # -- senses ----------------------------------------------------------------------------------

    def note(self, reason: str) -> None:
        """Something was seen that may stand for a repeated request; the first reason stays."""
        if self.reason is None:
            self.reason = reason

    def hear(self, facility: str, line: str) -> None:
        """A log line of librdkafka: its facility (FAIL, REQTMOUT, ...) and its text."""
        if facility == "FAIL":
            if _WAS_BEING_MADE.search(line) or _LET_GO in line:
                return
        elif facility != "REQTMOUT":
            return
        self.note(f"librdkafka says {facility}: {line[:300]}")

    def statistics(self, text: str | bytes) -> None:
        """A statistics record of librdkafka. What cannot be read is passed over."""
        try:
            brokers = _DECODER.decode(text).brokers
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return
        ends_sent = sum(broker.req.get("EndTxn", 0) for broker in brokers.values())
        if ends_sent > self._ends_asked:
            self.note(f"EndTxn was sent {ends_sent} times for {self._ends_asked} transactions")
        before, self._before = self._before, brokers
        if before is None:
            return  # what making the connections took is in it, and nothing says what it was
        for name, broker in brokers.items():
            what = _trouble(before.get(name, _NO_BROKER), broker)
            if what is not None:
                self.note(f"statistics of {name}: {what}")


def _trouble(before: _Broker, now: _Broker) -> str | None:
    if now.req_timeouts > before.req_timeouts:
        return f"{now.req_timeouts - before.req_timeouts} requests timed out"
    if now.rxerrs > before.rxerrs:
        return f"{now.rxerrs - before.rxerrs} answers were lost"
    # A broker that is down counts each attempt to connect; nothing was sent to it meanwhile.
    was_used = before.state == "UP" or now.tx > before.tx
    if now.disconnects > before.disconnects and was_used:
        return f"{now.disconnects - before.disconnects} connections broke"
    return None
