"""Half Hitch in a Django project: messages that follow the rows of a `transaction.atomic()`.

    INSTALLED_APPS = [..., "halfhitch.django"]
    HALFHITCH = {"GROUP": "orders"}

    with transaction.atomic():
        order = Order.objects.create(...)
        halfhitch.django.send("order-events", b"...")

A message is stored at once, invisible, and a row of the barrier's table is written with it, through
Django's own connection. When Django has committed, the messages are; when it has rolled back, or
the process dies, a check reads the table and finds the row, or fences it.

    process     the settings, the barrier, the producer of this process
    sending     which messages belong to which atomic block, and when they are committed
    operations  the barrier's table in a migration
"""

from typing import TYPE_CHECKING, Any

from halfhitch import extras

try:
    import django as _django  # noqa: F401
except ModuleNotFoundError as error:
    raise extras.missing("halfhitch.django", error) or error from None

if TYPE_CHECKING:
    from halfhitch.django.process import barrier, close, start_checks
    from halfhitch.django.sending import prepare, send, transaction_id

__all__ = ["barrier", "close", "prepare", "send", "start_checks", "transaction_id"]

_HOME = {"barrier": "process", "close": "process", "start_checks": "process"}


def __getattr__(name: str) -> Any:
    """Late: Django imports an application before its settings and models are there."""
    if name not in __all__:
        raise AttributeError(f"module 'halfhitch.django' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"halfhitch.django.{_HOME.get(name, 'sending')}"), name)
