"""Plain sends: one message appended to its real topic at once, in no transaction.

For doors whose clients send such messages over the connection of their transactions.
"""

from halfhitch.ports import KafkaHeaders
from halfhitch.service.api import OutgoingMessage
from halfhitch.service.transactions.dependencies import Dependencies
from halfhitch.service.transactions.prepare import Preparing


class SingleSends:
    """service.api.SingleSends over the record log."""

    def __init__(self, parts: Dependencies, preparing: Preparing) -> None:
        self._parts = parts
        self._preparing = preparing

    async def send(self, message: OutgoingMessage, further: KafkaHeaders) -> tuple[int, int]:
        """See service.api.SingleSends."""
        await self._parts.admission.check_messages((message,), 0)
        self._preparing.partition_of(None, "")  # raises until Kafka has been reached
        return await self._parts.log.append_message(
            message.topic, message.partition, message.key, message.value, message.headers + further
        )
