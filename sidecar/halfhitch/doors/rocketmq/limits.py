"""How much one client, and all clients together, may take from the RocketMQ door.

Owns `Limits`: every bound of the door in one frozen object. Those that can be set have their
defaults, and the reasons, in config/settings.py; the others have them here. Limits on messages and
topics are the service's; these protect the process itself.
"""

from dataclasses import dataclass, fields

from halfhitch.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of the RocketMQ door. All must be positive."""

    #: One frame. RocketMQ's own limit: a client's largest message (4 MiB) or batch must arrive as
    #: a whole before it can be refused with a reason.
    frame_bytes_max: int = 16 * 1024 * 1024

    #: The body of one message, decompressed; the service has the last word with key and headers.
    body_bytes_max: int

    #: Unfinished frames held for all connections together. Those of connections that have shown no
    #: signature may take half of it, where one is asked for.
    held_bytes_max: int = 128 * 1024 * 1024

    #: Open connections. A client machine has one or two, whatever its number of threads.
    connection_count_max: int

    #: Those of one address: nobody can take all of them.
    connection_peer_count_max: int

    #: Those of one identity, from all its addresses, where callers are told apart.
    connection_identity_count_max: int

    #: Producer groups that one connection may register.
    group_count_max: int = 256

    #: Producer groups of all connections together: each takes a kilobyte or two here. As many
    #: connections as there may be have sixteen each.
    producer_count_max: int

    #: Those of one identity: nobody can take all of them.
    producer_identity_count_max: int

    #: Requests in flight at which new messages are refused (SYSTEM_BUSY). Ends still pass.
    in_flight_count_max: int

    #: The same in bytes, of frames and of what was compressed in them; native threads have half of
    #: it. Where callers are told apart, each identity has half of both bounds. Ends are never
    #: refused: where they are more than all of it, nothing more is read from who sends them.
    in_flight_bytes_max: int

    #: Requests in flight of one connection at which reading pauses until half are answered.
    pipelined_count_max: int = 2_048

    #: A silent connection is closed; clients send a heartbeat every 30 s.
    idle_s: float = 120.0

    #: From the first byte of a frame to its last.
    receive_s: float = 30.0

    #: Answers a client has not read yet, at which nothing more is read from it.
    write_buffer_bytes: int = 256 * 1024

    #: How long a client may leave a full write buffer unread.
    write_stall_s: float = 15.0

    #: How long bytes may stay unacknowledged (TCP): so a machine that is gone is noticed.
    unacknowledged_s: float = 7.0

    #: From accepting a connection to the end of its TLS handshake.
    handshake_s: float = 10.0

    #: While stopping: a connection that says nothing for so long is closed. The end of a message
    #: that was just prepared may still be on its way.
    last_word_s: float = 1.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) <= 0:
                raise ConfigurationError(
                    f"The RocketMQ limit {field.name} must be positive, not "
                    f"{getattr(self, field.name)}."
                )
