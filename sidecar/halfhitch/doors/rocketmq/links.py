"""A producer group on a remoting connection, as the check desk sees it: one way to live producers.

A check goes out as request 39, one-way, on the producer's own connection, with the message as it
was sent. The answer is an ordinary request to end the transaction, on whichever connection.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from halfhitch.access import Grant
from halfhitch.core.model import ProducerGroup
from halfhitch.doors.rocketmq.messages import properties_of
from halfhitch.doors.rocketmq.names import client_names
from halfhitch.doors.rocketmq.offsets import Address, commit_log_offset
from halfhitch.errors import HalfHitchError
from halfhitch.service.checking.api import AT_ONCE_ELSE
from halfhitch.wire import headers as names
from halfhitch.wire.check import Check
from halfhitch.wire.handle import Handle
from halfhitch.wire.remoting.checking import Check as RemotingCheck
from halfhitch.wire.remoting.checking import check_request
from halfhitch.wire.remoting.messages import EncodedMessage, Host, encode_message
from halfhitch.wire.seal import Seals

logger = logging.getLogger(__name__)

_TRUE: Final = "true"


class Way(Protocol):
    """The connection under a link."""

    def can_ask(self) -> bool:
        """Whether a request can be sent now."""
        ...

    def ask(self, content: bytes) -> None:
        """Send a request of ours."""
        ...

    def next_opaque(self) -> int:
        """A number for it."""
        ...


@dataclass(frozen=True, slots=True)
class Questioning:
    """What all links of a door share."""

    broker_name: str
    wall_ms: Callable[[], int]
    read_handle: Callable[[str], Handle]
    seals: Callable[[], Seals]


class RemotingLink:
    """service.checking.api.ProducerLink."""

    def __init__(
        self,
        way: Way,
        producer_group: str,
        name: str,
        *,
        peer: Host,
        address: Address,
        grant: Grant,
        has_namespace_field: bool,
        questioning: Questioning,
    ) -> None:
        self._way = way
        #: Whether the group may be asked over this connection: identities may change.
        self.is_allowed = grant.holds
        self._producer_group = ProducerGroup(producer_group)
        self._name = name
        self._peer = peer
        self._address = address
        self._has_namespace_field = has_namespace_field
        self._questioning = questioning

    @property
    def producer_group(self) -> ProducerGroup:
        """Whom it leads to."""
        return self._producer_group

    @property
    def name(self) -> str:
        """Where the producer is."""
        return self._name

    @property
    def at_once(self) -> int:
        """Java's producers queue 2,000 checks and drop what is more."""
        return AT_ONCE_ELSE

    def offer(self, check: Check) -> bool:
        """Send it, if it is about one message: remoting clients know no others."""
        if len(check.messages) != 1 or not self._way.can_ask() or not self.is_allowed():
            return False
        try:
            content = self._encoded(check)
        except HalfHitchError as error:  # prepared through another door, with what does not fit
            logger.warning(
                "the check of transaction %s cannot be put to RocketMQ producer %s: %s",
                check.identity[1],
                self._name,
                error,
                extra={"action": "rocketmq_check_unfit"},
            )
            return False
        self._way.ask(content)
        return True

    def _encoded(self, check: Check) -> bytes:
        message = check.messages[0]
        transaction_id = check.identity[1]
        # Copies of the half that came through another instance's inbox are named by the handle.
        half_offsets = check.half_offsets
        half_offset = (
            half_offsets[0]
            if half_offsets
            else self._questioning.read_handle(check.handle).half_offsets[0]
        )
        position = commit_log_offset(check.partition, half_offset)
        seal = self._questioning.seals().make(check.partition, half_offset, *check.identity)
        group, topic = client_names(
            check.identity[0], message.topic, has_field=self._has_namespace_field
        )
        queue_id = message.partition or 0
        properties, flag = properties_of(message)
        properties.update(
            {
                names.TRAN_MSG: _TRUE,
                names.PGROUP: group,
                names.UNIQ_KEY: transaction_id,
                "__transactionId__": transaction_id,
                names.REAL_TOPIC: topic,
                names.REAL_QID: str(queue_id),
                names.TRANSACTION_CHECK_TIMES: str(check.number),
            }
        )
        now_ms = self._questioning.wall_ms()
        encoded = encode_message(
            EncodedMessage(
                topic=topic,
                queue_id=queue_id,
                queue_offset=seal,
                commit_log_offset=position,
                born_ms=max(0, now_ms - check.age_ms),
                born_host=self._peer,
                stored_ms=now_ms,
                store_host=self._address.host,
                body=message.value or b"",
                properties=properties,
                flag=flag,
            )
        )
        question = RemotingCheck(
            state_offset=seal,
            commit_log_offset=position,
            message_id=transaction_id,
            transaction_id=transaction_id,
            offset_message_id=self._address.message_ids.make(position),
            topic=topic,
            broker_name=self._questioning.broker_name,
        )
        return check_request(self._way.next_opaque(), question, encoded)
