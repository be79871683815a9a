"""Half Hitch: transactional messages for Kafka.

The public names are loaded when first used: `halfhitch --help` and the pure packages stay light.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from halfhitch.client import (
        AsyncTransactionProducer,
        Check,
        DecisionUnknown,
        LocalTransactionState,
        Message,
        PrepareUnknown,
        ProducerClosed,
        SidecarUnavailable,
        TransactionDoomed,
        TransactionEnded,
        TransactionListener,
        TransactionMisused,
        TransactionProducer,
    )
    from halfhitch.errors import ContraryDecision, TransactionReused

__all__ = [
    "AsyncTransactionProducer",
    "Check",
    "ContraryDecision",
    "DecisionUnknown",
    "LocalTransactionState",
    "Message",
    "PrepareUnknown",
    "ProducerClosed",
    "SidecarUnavailable",
    "TransactionDoomed",
    "TransactionEnded",
    "TransactionListener",
    "TransactionMisused",
    "TransactionProducer",
    "TransactionReused",
    "__version__",
]


def is_compiled() -> bool:
    """Whether the hot path here is the one in C (`make compiled`); what it does is the same."""
    from importlib.util import find_spec

    spec = find_spec("halfhitch.core.ledger")
    return spec is not None and not str(spec.origin).endswith(".py")


def is_native() -> bool:
    """Whether halfhitch-native is here (`make native`); what it does is the same."""
    from importlib.util import find_spec

    return find_spec("halfhitch_native") is not None


def __getattr__(name: str) -> Any:
    if name in ("ContraryDecision", "TransactionReused"):
        from halfhitch import errors

        return getattr(errors, name)
    if name in __all__:
        import halfhitch.client

        return getattr(halfhitch.client, name)
    raise AttributeError(f"module 'halfhitch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
