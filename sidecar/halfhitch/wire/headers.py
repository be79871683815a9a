"""Every header name that Half Hitch writes to Kafka, RocketMQ's spelling kept.

These literals are a public contract: consumers, Spark jobs and other versions read them.
A header name that stands here may not be used by a user (see RESERVED).
"""

REAL_TOPIC = "REAL_TOPIC"
REAL_QID = "REAL_QID"
PGROUP = "PGROUP"
UNIQ_KEY = "UNIQ_KEY"
TRAN_MSG = "TRAN_MSG"
CHECK_IMMUNITY_TIME_IN_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS"
TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
TRAN_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"

#: Ours: `<version>;<index>;<born_ms>;<instance>;d=<digest>` on half records (the digest of 16
#: hexadecimal digits is missing where an older release took the message); on forwarded records with
#: `;n=<messages of the transaction>` before the digest (see wire/count.py); the entries on op
#: records.
HALFHITCH = "HALFHITCH"

#: On half records that are not the first of their message: broker time of the first, and, once it
#: was parked and put back, what is known of that (see wire/half.py).
HALFHITCH_COPY = "HALFHITCH_COPY"

#: On parked records: why, and where the half lay.
HALFHITCH_PARKED = "HALFHITCH_PARKED"

#: The tag of an op record: c, r, p, d, x or o.
TAGS = "TAGS"

#: Version of the half, forwarded and op record forms, first in every HALFHITCH header.
RECORD_VERSION = 1

#: System headers of a half record that are not handed on to the real topic.
HALF_ONLY = frozenset(
    {
        REAL_TOPIC,
        REAL_QID,
        TRAN_MSG,
        CHECK_IMMUNITY_TIME_IN_SECONDS,
        TRANSACTION_CHECK_TIMES,
        TRAN_PREPARED_QUEUE_OFFSET,
        HALFHITCH_COPY,
    }
)

#: System headers of a half record.
SYSTEM = HALF_ONLY | {PGROUP, UNIQ_KEY, HALFHITCH}

#: Names a user may not give a header. `__transactionId__` is RocketMQ's own copy of the id.
RESERVED = SYSTEM | {"__transactionId__"}

#: No user header may begin with this either: room for later versions.
RESERVED_PREFIX = "HALFHITCH"


def is_reserved(name: str) -> bool:
    """Whether a header of this name is ours, and never a user's."""
    return name in RESERVED or name.startswith(RESERVED_PREFIX)
