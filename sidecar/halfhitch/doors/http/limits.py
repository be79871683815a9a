"""How much one caller, and all callers together, may take from the data door.

Owns `Limits`: every bound of the door in one frozen object. Those that can be set have their
defaults, and the reasons, in config/settings.py; the others have them here. Limits on messages,
topics and transactions are the service's; these protect the process itself.
"""

from dataclasses import dataclass, fields

from halfhitch.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of the HTTP data door. All must be positive."""

    #: One request's body.
    body_bytes_max: int

    #: Request line and headers.
    header_bytes_max: int

    #: From the first byte of a request to its last.
    receive_s: float

    #: From accepting a connection to the end of its TLS handshake, which has no place before.
    handshake_s: float = 10.0

    #: Between requests of one connection.
    idle_s: float

    #: From a prepare on, how long a stop waits for its end; then checks ask about it.
    unended_s: float

    #: Open connections.
    connection_count_max: int

    #: Those of one address: nobody can take all of them.
    connection_peer_count_max: int

    #: Those of one identity, from all its addresses, where callers are told apart.
    connection_identity_count_max: int

    #: Check streams among them.
    stream_count_max: int

    #: Those of one producer group.
    stream_group_count_max: int

    #: Those of one identity, where callers are told apart.
    stream_identity_count_max: int

    #: Requests in flight at which new prepares are refused (429). Ends still pass; what bounds them
    #: is `connection_count_max`, one request of a connection at a time.
    in_flight_count_max: int

    #: Bodies held by the door at once, queued and in flight together. Without it, as many callers
    #: as there are connections could send full bodies at once and the sidecar's memory limit
    #: would end the process, and with it everybody's requests.
    buffered_bytes_max: int = 64 * 1024 * 1024

    #: Those of one identity, or where none is told apart of one address: nobody can fill the bound.
    buffered_share_bytes_max: int = 32 * 1024 * 1024

    #: Generous for user headers, and far below what makes a head costly to read.
    header_count_max: int = 128

    #: From one heartbeat line of a check stream to the next. The contract says three seconds;
    #: the sweep that sends them may be half a second late.
    heartbeat_s: float = 2.0

    #: How long bytes of a check stream may stay unacknowledged (TCP alone). With the time to the
    #: next heartbeat it makes up how long a producer whose machine is gone counts as live.
    unacknowledged_s: float = 7.0

    #: Requests of one connection read ahead while an earlier one is being answered. Reading
    #: stops here; what one read brought (at most 256 KiB) may exceed it.
    pipelined_count_max: int = 16

    #: Answers a caller has not read yet. Answers are small: this is some hundreds of them.
    write_buffer_bytes: int = 64 * 1024

    #: How long a caller may leave a full write buffer, or a closing connection, unread.
    write_stall_s: float = 15.0

    #: After a refusal in the middle of a request the door goes on reading, to no use but one:
    #: closing with unread bytes resets the connection, and the reset may overtake the answer that
    #: says what was wrong. Ordinary clients read an answer only when their whole body is sent, so
    #: this is how much too long a body may be for its sender to learn of it. Nothing is kept.
    linger_bytes_max: int = 64 * 1024 * 1024

    #: How long that may take in all.
    linger_s: float = 30.0

    #: And how long nothing may come: who has read the answer closes at once.
    linger_silence_s: float = 2.0

    #: What 429 and 503 of the door itself put into Retry-After.
    retry_after_s: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) <= 0:
                raise ConfigurationError(
                    f"The HTTP limit {field.name} must be positive, not "
                    f"{getattr(self, field.name)}."
                )
