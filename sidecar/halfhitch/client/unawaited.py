"""Functions that must be awaited, where nothing awaits. No I/O.

A blocking producer that called an `async def` would get a coroutine, run nothing of it, and say
UNKNOWN for ever. `inspect` knows more kinds, and takes as long to import as the producer.
"""

from functools import partial

from halfhitch.errors import ConfigurationError

#: Of a code object: `async def`, a generator that `types.coroutine` made one, `async def` + yield.
_ASYNC_FLAGS = 0x80 | 0x100 | 0x200


def is_async(function: object) -> bool:
    """A call of it runs nothing. Looks into partials, methods and objects with `__call__`."""
    while isinstance(function, partial):
        function = function.func
    if not callable(function):
        return False
    return _is_async_code(function) or _is_async_code(type(function).__call__)


def refuse_async(function: object, what: str) -> None:
    """Raises ConfigurationError for what a blocking producer would call and never run."""
    if is_async(function):
        raise ConfigurationError(
            f"{what} is an async function, and this producer awaits nothing: no line of it would"
            " run. Give a plain function, or use AsyncTransactionProducer"
        )


def not_a_state(told: object, what: str) -> TypeError:
    """What `what` returned is no LocalTransactionState; a coroutine is closed, so it is told once.

    Its own warning, that it was never awaited, would name no cause.
    """
    if hasattr(type(told), "__await__"):
        close = getattr(told, "close", None)
        if callable(close):
            close()
        return TypeError(
            f"{what} returned a {type(told).__name__}, of which nothing has run: let it return a"
            " LocalTransactionState (`async def` is for AsyncTransactionProducer)"
        )
    return TypeError(f"{what} must return a LocalTransactionState, not {type(told).__name__}")


def _is_async_code(function: object) -> bool:
    function = getattr(function, "__func__", function)
    flags = getattr(getattr(function, "__code__", None), "co_flags", 0)
    return isinstance(flags, int) and bool(flags & _ASYNC_FLAGS)
