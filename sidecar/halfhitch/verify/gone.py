"""Half records that were deleted before they had ended.

Owners delete below the stored half watermark alone, and behind it everything has its done mark. So
what is missing elsewhere, and has no mark, was deleted by retention, by a person (DeleteRecords) or
with the topic. Whose it was nobody can say any more, nor whether all of it were messages: Kafka's
own marks lie in the log as well. So it is no violation of a transaction's, and not clean either.

Pure: no clock, no I/O.
"""

from collections.abc import Mapping

from halfhitch.verify.account import Account, Place


def gone(
    account: Account,
    starts: Mapping[Place, int],
    ends: Mapping[Place, int],
    watermarks: Mapping[int, int],
) -> int:
    """How many of them there are, or may be; every op record was read before.

    `watermarks` are asked for behind `starts`: what an owner has deleted lies below them. One that
    is not known says nothing.
    """
    count = 0
    for place, start in starts.items():
        partition, end = place[1], ends[place]
        watermark = watermarks.get(partition)
        # Behind the end: the log was cut there, or is of a topic that was made anew.
        count += account.done_count(partition, end, None)
        if watermark is None:
            continue
        count += max(0, watermark - end)
        if watermark < start:
            count += start - watermark - account.done_count(partition, watermark, start)
    return count
