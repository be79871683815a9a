"""How a transactional producer ends: not before its last produce request is done with.

librdkafka frees a transactional producer's last error when it is destroyed, while answers are still
read. The answer "fenced" to one more produce request frees that error again: glibc ends the process
for a double free, at once or later, or its heap stays damaged. A producer that is fenced while
requests to two brokers are under way, and is destroyed because the first one said so, hits it once
in some thirty times (librdkafka 2.15 and 2.16, `rd_kafka_txns_term`).

So its messages are purged, also those under way, and waited for: once each has been reported, no
answer is taken any more. `purge` alone does not wait: its `blocking` does the opposite in
confluent_kafka, and where it waits it keeps the interpreter lock. Reports that nobody fetches are
also never freed, nor is what they refer to.

Whoever lets go has ended the Kafka transaction, asked for its commit, or met a fatal error. One
that has just begun asks for its first partition, and if the producer is destroyed in that very
moment, librdkafka ends the process (`txn_req_cnt > 0`).
"""

import logging
import threading
from abc import ABC, abstractmethod
from typing import Final

from confluent_kafka import KafkaException, Producer

from halfhitch.adapters.kafka.errors import CLOSE_ERRORS

logger = logging.getLogger(__name__)

#: Milliseconds are usual; a client that is looking up a broker's name does not answer meanwhile.
_WAIT_S: Final = 2.0
#: Below 0.2 s the binding polls once, and comes back with what was raised.
_SLICE_S: Final = 0.05


class Shell(ABC):
    """Holds a client (clients.OwnerProducer)."""

    @abstractmethod
    def release(self) -> Producer | None:
        """Gives it up: with the last reference to it, it ends. None when it was given up."""


def let_go(producer: Producer | Shell) -> None:
    """Forget what it still has to send; with its last reference it ends. Never raises.

    Serves its callbacks. Not `Producer.close`: that aborts what is open without any bound of time,
    so that a Kafka which is away would hold this thread until it comes back; and it would ask for
    an abort where nobody knows what became of a commit.
    """
    client = producer.release() if isinstance(producer, Shell) else producer
    del producer
    try:
        if client is None:
            return  # it has been let go before
        try:
            client.purge()
        except CLOSE_ERRORS as error:
            logger.debug("a producer did not let go cleanly: %s", error)
        ending = threading.Thread(target=_end, args=(client,), name="letting-go", daemon=True)
    finally:
        del client  # an exception that is kept keeps this frame
    ending.start()
    ending.join(_WAIT_S)


def _end(producer: Producer) -> None:
    """Holds it until it may end.

    On a thread of its own, and not by `flush`: when the binding serves a fatal error it leaves
    exceptions behind that are never freed, and with them the error that is being handled, whose
    frames hold the producer.
    """
    try:
        while len(producer) > 0:
            try:
                producer.poll(_SLICE_S)
            except (KafkaException, SystemError):
                pass  # its fatal error: whatever serves callbacks raises it once more
            except RuntimeError as error:
                logger.debug("a producer was closed before: %s", error)
                return
    finally:
        del producer
