"""Every number of the remoting protocol that has a name. They stand here and nowhere else."""

from enum import IntEnum
from typing import Final

#: What a client asks. Plain numbers: an unknown one is an ordinary case, not an error.
SEND_MESSAGE: Final = 10
UPDATE_AND_CREATE_TOPIC: Final = 17
GET_MAX_OFFSET: Final = 30
HEART_BEAT: Final = 34
UNREGISTER_CLIENT: Final = 35
END_TRANSACTION: Final = 37
GET_CONSUMER_LIST_BY_GROUP: Final = 38
CHECK_TRANSACTION_STATE: Final = 39
GET_ROUTE_INFO_BY_TOPIC: Final = 105
GET_BROKER_CLUSTER_INFO: Final = 106
GET_ALL_TOPIC_LIST_FROM_NAME_SERVER: Final = 206
SEND_MESSAGE_V2: Final = 310
SEND_BATCH_MESSAGE: Final = 320
SEND_REPLY_MESSAGE: Final = 324
SEND_REPLY_MESSAGE_V2: Final = 325

#: What a request is answered with.
SUCCESS: Final = 0
SYSTEM_ERROR: Final = 1
SYSTEM_BUSY: Final = 2
REQUEST_CODE_NOT_SUPPORTED: Final = 3
FLUSH_DISK_TIMEOUT: Final = 10
SLAVE_NOT_AVAILABLE: Final = 11
FLUSH_SLAVE_TIMEOUT: Final = 12
MESSAGE_ILLEGAL: Final = 13
SERVICE_NOT_AVAILABLE: Final = 14
VERSION_NOT_SUPPORTED: Final = 15
NO_PERMISSION: Final = 16
TOPIC_NOT_EXIST: Final = 17
QUERY_NOT_FOUND: Final = 22
INVALID_PARAMETER: Final = 29
FLOW_CONTROL: Final = 215
ILLEGAL_OPERATION: Final = 604
GO_AWAY: Final = 1500

#: Bits of a frame's flag.
RESPONSE_FLAG: Final = 1
ONE_WAY_FLAG: Final = 2

#: Bits of a message's sysFlag.
COMPRESSED: Final = 0x1
TRANSACTION_MASK: Final = 0xC
TRANSACTION_NOT: Final = 0x0
TRANSACTION_PREPARED: Final = 0x4
TRANSACTION_COMMIT: Final = 0x8
TRANSACTION_ROLLBACK: Final = 0xC
BORN_HOST_IPV6: Final = 0x10
STORE_HOST_IPV6: Final = 0x20
COMPRESSION_MASK: Final = 0x700
COMPRESSION_SHIFT: Final = 8

#: The version put into answers: 5.3.3. Clients keep it to choose what they may ask.
ANSWERED_VERSION: Final = 479
#: Servers that shut down may tell clients later than this to go away.
GO_AWAY_VERSION_ABOVE: Final = 475

#: Language of the answers: OTHER.
ANSWERED_LANGUAGE: Final = 7

#: By number, as the JSON form writes them.
LANGUAGES: Final = (
    "JAVA",
    "CPP",
    "DOTNET",
    "PYTHON",
    "DELPHI",
    "ERLANG",
    "RUBY",
    "OTHER",
    "HTTP",
    "GO",
    "PHP",
    "OMS",
    "RUST",
    "NODE_JS",
)

#: The topic whose route clients ask for when the one they want does not exist.
AUTO_CREATE_TOPIC: Final = "TBW102"

#: Bits of a queue's permission.
PERMISSION_READ: Final = 4
PERMISSION_WRITE: Final = 2
PERMISSION_INHERIT: Final = 1


class Compression(IntEnum):
    """How a body was compressed, by the bits of its sysFlag."""

    UNSPECIFIED = 0  # older clients: zlib
    LZ4 = 1
    ZSTD = 2
    ZLIB = 3
