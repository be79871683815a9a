"""The native way of the data door, out of the settings."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from halfhitch.adapters.native import carrier
from halfhitch.doors.http.lending import Lending, OnRequests
from halfhitch.doors.http.limits import Limits
from halfhitch.doors.http.native import Native
from halfhitch.engine import Engine
from halfhitch.errors import HalfHitchError, KafkaUnavailable
from halfhitch.ports import Observer
from halfhitch.wire.half import INDEX_MAX

logger = logging.getLogger(__name__)

#: A longer head is left to the loop, which knows how much is too much.
_HEAD_BYTES_MAX: Final = 8_192


def http_way(
    engine: Engine,
    observer: Observer,
    on_requests: OnRequests,
    limits: Limits,
    make: Callable[..., Native] | None,
    *,
    transaction_bytes_max: int,
) -> Lending | None:
    """For requests that `make` (halfhitch-native's) can carry out; None where it does not fit."""
    if make is None:
        return None
    appends, transactions = engine.appends(), engine.transactions
    library, options = carrier.library(), carrier.native_options(appends.config)
    if library is None or options is None:
        logger.info(
            "halfhitch-native is not used for HTTP: librdkafka is not of confluent-kafka's wheel, "
            "or kafka.options ask for what calls back into Python",
            extra={"action": "native_unused"},
        )
        return None

    def error_of(route: str, number: int) -> HalfHitchError:
        is_end = route in ("commit", "rollback")
        topic = appends.op_topic if is_end else appends.half_topic
        return carrier.native_error(number, topic)

    def signer() -> tuple[bytes, bytes]:
        try:
            return transactions.signer()
        except KafkaUnavailable:
            return b"", b""

    lending = Lending(
        partial(
            make,
            library,
            options,
            half_topic=appends.half_topic,
            op_topic=appends.op_topic,
            instance=appends.instance,
            head_bytes_max=min(_HEAD_BYTES_MAX, limits.header_bytes_max // 2),
            # What could make a transaction too large by and by is for whoever adds it up.
            message_bytes_max=min(
                appends.message_bytes_max, transaction_bytes_max // (INDEX_MAX + 1) - 1
            ),
            in_flight_bytes_max=limits.buffered_share_bytes_max,
            immunity_s=limits.unended_s,
        ),
        observer=observer,
        on_requests=on_requests,
        partition_count=lambda: transactions.partition_count,
        owner_read_to=appends.decisions.owner_read_to,
        preferred_partition=appends.preferred_partition,
        signer=signer,
        target_partitions=appends.target_partitions,
        is_free=engine.intake.is_free,
        is_open=transactions.is_open,
        claim=transactions.claim_new,
        unclaim=transactions.unclaim,
        disown=transactions.disown,
        error_of=error_of,
        traced=transactions.traced,
        log=carrier.native_log,
    )
    appends.decisions.join(lending)
    return lending
