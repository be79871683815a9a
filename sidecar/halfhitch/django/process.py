"""What a process has of Half Hitch: its settings, the barrier, and one producer.

All three are made when they are first used, in each process by itself. Nothing is done while Django
starts: `migrate` and the shell need no sidecar.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.db import DEFAULT_DB_ALIAS, connections

from halfhitch.barrier import DEFAULT_TABLE, DbapiBarrier
from halfhitch.client import TransactionProducer

_KNOWN: Final = ("ADDRESS", "ANSWERS_CHECKS", "BARRIER", "GROUP", "PRODUCER", "TABLE", "USING")
#: What `ADDRESS`, `TABLE` and their like say already.
_TAKEN: Final = ("address", "answers_checks", "check", "group", "listener", "table")


@dataclass(frozen=True, slots=True)
class Settings:
    """`HALFHITCH` of the project's settings."""

    group: str
    address: str | None = None
    using: str = DEFAULT_DB_ALIAS
    table: str = DEFAULT_TABLE
    answers_checks: bool = True
    #: Of `DbapiBarrier`: fence_after_s, keep_s, wait_s.
    barrier: Mapping[str, Any] = field(default_factory=dict)
    #: Of `TransactionProducer`: token, tls, deadline_s and so on.
    producer: Mapping[str, Any] = field(default_factory=dict)


def settings() -> Settings:
    """Raises ImproperlyConfigured."""
    given = getattr(django_settings, "HALFHITCH", None)
    if not isinstance(given, dict) or not given.get("GROUP"):
        raise ImproperlyConfigured(
            'HALFHITCH is missing in the settings: HALFHITCH = {"GROUP": "orders"}, with the'
            " producer group of this project"
        )
    unknown = sorted(set(given) - set(_KNOWN))
    options = {*given.get("PRODUCER", ()), *given.get("BARRIER", ())} & set(_TAKEN)
    if unknown or options:
        raise ImproperlyConfigured(
            f"HALFHITCH has {', '.join([*unknown, *sorted(options)])}: its keys are"
            f" {', '.join(_KNOWN)}; PRODUCER and BARRIER take what those do not say"
        )
    return Settings(**{name.lower(): value for name, value in given.items()})


class Running:
    """The barrier and the producer by one state of the settings."""

    def __init__(self) -> None:
        self.settings = chosen = settings()
        #: A connection that shows what is committed, as a driver's own.
        self.connect = _own_connections(chosen.using)
        self.barrier = DbapiBarrier(
            self.connect,
            chosen.group,
            dialect=connections[chosen.using].vendor,
            table=chosen.table,
            **chosen.barrier,
        )
        self.producer = TransactionProducer(
            chosen.group,
            chosen.address,
            check=self.barrier.check,
            answers_checks=chosen.answers_checks,
            **chosen.producer,
        )


#: At most one. Each step is one of a dictionary's: a lock might be locked when the process forks.
_RUNNING: Final[dict[str, Running]] = {}


def running() -> Running:
    """For this package: made at its first use. Raises ImproperlyConfigured."""
    found = _RUNNING.get("")
    if found is None:
        made = Running()
        found = _RUNNING.setdefault("", made)
        if found is not made:  # another thread was quicker
            made.producer.close()
    return found


def barrier() -> DbapiBarrier:
    """Of the database that the settings name, for `barrier().purge()`."""
    return running().barrier


def start_checks() -> None:
    """Answer checks from now on, and not from the first message on. In wsgi.py, for example."""
    running()


def close() -> None:
    """End the producer; the next use makes a new one. For tests, and for what ends a process."""
    found = _RUNNING.pop("", None)
    if found is not None:
        found.producer.close()


def _own_connections(using: str) -> Callable[[], AbstractContextManager[Any]]:
    """A check's: set up as Django sets up all of this database's, and nobody else's."""

    @contextmanager
    def connect() -> Iterator[Any]:
        own = connections.create_connection(using)
        try:
            own.set_autocommit(False)
            yield own.connection
        finally:
            driver_connection = own.connection
            own.close()
            if own.connection is not None:  # of a database in memory, which Django leaves open
                driver_connection.close()

    return connect


def _changed(*, setting: str, **_: object) -> None:
    if setting in ("HALFHITCH", "DATABASES"):
        close()


setting_changed.connect(_changed, dispatch_uid="halfhitch.django")
