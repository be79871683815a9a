"""The client: producers of transactional messages, blocking and asyncio.

It imports the standard library and `halfhitch.errors` only, and each name when it is first used:
the blocking producer does not pay for asyncio, nor a program that only makes messages for sockets.

    values, errors      what programs see
    options             what a producer is made with: no I/O
    given               what programs hand over, as plain values: no I/O
    calls, protocol     requests as bytes, answers as values: no I/O
    retries             when to try again, and what may be said after giving up: no I/O
    conversation        the course of one transaction: no I/O
    turns               who may use a connection: no I/O
    unawaited           an `async def` where nothing awaits
    checks, check_lines the stream of checks, and what an answer may be: no I/O
    sync, aio           the two shells, each with its transactions and connections and, when it
                        answers checks, its stream (`sync_checks`, `aio_checks`)

`sync` and `sync_transactions` are made of `aio` and `aio_transactions` by `tools/blocking.py`. What
a thread does otherwise than a task stands in connections and checks, each written for itself.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from halfhitch.client.aio import AsyncTransactionProducer
    from halfhitch.client.aio_transactions import AsyncTransaction
    from halfhitch.client.errors import (
        BadAnswer,
        DecisionUnknown,
        PrepareUnknown,
        ProducerClosed,
        SidecarUnavailable,
        TransactionDoomed,
        TransactionEnded,
        TransactionMisused,
    )
    from halfhitch.client.sync import TransactionProducer
    from halfhitch.client.sync_transactions import Transaction
    from halfhitch.client.tls import ClientTls
    from halfhitch.client.values import (
        AsyncTransactionListener,
        Check,
        Ended,
        LocalTransactionState,
        Message,
        Prepared,
        SendResult,
        TransactionListener,
        TransactionView,
    )

__all__ = [
    "AsyncTransaction",
    "AsyncTransactionListener",
    "AsyncTransactionProducer",
    "BadAnswer",
    "Check",
    "ClientTls",
    "DecisionUnknown",
    "Ended",
    "LocalTransactionState",
    "Message",
    "PrepareUnknown",
    "Prepared",
    "ProducerClosed",
    "SendResult",
    "SidecarUnavailable",
    "Transaction",
    "TransactionDoomed",
    "TransactionEnded",
    "TransactionListener",
    "TransactionMisused",
    "TransactionProducer",
    "TransactionView",
]

_HOME = {
    "AsyncTransaction": "aio_transactions",
    "AsyncTransactionProducer": "aio",
    "BadAnswer": "errors",
    "ClientTls": "tls",
    "DecisionUnknown": "errors",
    "PrepareUnknown": "errors",
    "ProducerClosed": "errors",
    "SidecarUnavailable": "errors",
    "Transaction": "sync_transactions",
    "TransactionDoomed": "errors",
    "TransactionEnded": "errors",
    "TransactionMisused": "errors",
    "TransactionProducer": "sync",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'halfhitch.client' has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(f"halfhitch.client.{_HOME.get(name, 'values')}"), name)
    globals()[name] = found
    return found
