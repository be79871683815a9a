"""What a request is made of: frames, and what the two requests of a transaction say.

They are msgspec's structs: its own C makes one of them faster than anything else could.
"""

from enum import IntEnum

import msgspec

from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.fields import read_fields


class Form(IntEnum):
    """How a header is written. An answer takes the form of its request."""

    JSON = 0
    BINARY = 1


class Frame(msgspec.Struct, eq=False):
    """A request or an answer. Made by `Frames`, or by `request` for one of ours."""

    code: int
    opaque: int  # answers carry their request's
    flag: int
    language: int
    version: int
    remark: str | None
    body: bytes
    form: Form
    raw_fields: bytes = b""  # of a binary header, as they came
    known_fields: dict[str, str] | None = None

    @property
    def fields(self) -> dict[str, str]:
        """The named fields. RemotingError when their bytes make no sense."""
        known = self.known_fields
        if known is None:
            known = self.known_fields = read_fields(self.raw_fields)
        return known

    @property
    def is_response(self) -> bool:
        return self.flag & codes.RESPONSE_FLAG != 0

    @property
    def is_one_way(self) -> bool:
        """Nobody waits for an answer."""
        return self.flag & codes.ONE_WAY_FLAG != 0


class JsonHeader(msgspec.Struct):
    """A header in the form of JSON, as far as it is looked at."""

    code: int
    opaque: int = 0
    flag: int = 0
    language: str | int | None = None
    version: int = 0
    remark: str | None = None
    extFields: dict[str, str | int | float | bool | None] | None = None  # noqa: N815


class Send(msgspec.Struct):
    """What a request to send says besides who asked."""

    producer_group: str
    topic: str
    default_topic: str
    default_queue_count: int
    queue_id: int
    sys_flag: int
    born_ms: int
    flag: int
    properties: dict[str, str]
    reconsume_count: int
    batch: bool
    broker_name: str | None
    namespace: str | None  # of clients that name it apart from the topic
    body: bytes


class BatchedMessage(msgspec.Struct):
    """One message of a batch; topic, queue and group are the batch's."""

    flag: int
    properties: dict[str, str]
    body: bytes


class End(msgspec.Struct):
    """What a request to end a transaction says."""

    producer_group: str
    commit_or_rollback: int  # COMMIT, ROLLBACK or UNKNOWN, nothing else
    from_check: bool
    state_offset: int  # tranStateTableOffset: echoed from the answer to the half, or from a check
    commit_log_offset: int
    message_id: str  # the client's, or that of the half when the client made none; may be empty
    transaction_id: str | None
    topic: str | None  # 5.x; in the answer to a check whatever topic the check named
    broker_name: str | None
    namespace: str | None
