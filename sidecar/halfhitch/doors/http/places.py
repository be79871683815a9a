"""Who has a place at a door of HTTP, and who makes room when all are taken.

A connection is unproven until the guard has let a request of it in. Those who are come and go with
strangers, so they make room first: whoever has a token cannot be kept out by those who have none.
An address has its share of the places, and within that share the same holds. So has an identity,
from all its addresses together: a connection beyond that stays unproven, and what it asks is
refused.

Where probes are answered everybody gets in: for whoever has proven himself makes room as well,
unless a request of his is being worked on. A few unproven stay even then: the next to come must not
be the first to go.
"""

from typing import Protocol, cast

from halfhitch.doors.holding import OpenConnection, Refused
from halfhitch.doors.http.errors import TooManyConnections
from halfhitch.doors.http.limits import Limits
from halfhitch.doors.http.load import Load, Share

#: Where probes are answered: the share of the places that the unproven may keep, as one in so many.
_UNPROVEN_PART = 4


#: Connections beyond the limit that are being told so. More are dropped without a word.
_TOLD_COUNT_MAX = 64


class _Placed(OpenConnection, Protocol):
    opened_s: float

    @property
    def is_waiting(self) -> bool: ...


def take_place(
    newcomer: OpenConnection, peer: str, load: Load, limits: Limits, *, makes_room: bool
) -> Share | TooManyConnections | None:
    """Give it a place, if need be that of another one: the share of its address.

    Else say why there is none; None: too many are being told so already. It counts among the
    door's connections already.
    """
    of_peer_count = load.came(peer)
    refused: tuple[Refused, str] | None = None
    if not makes_room and of_peer_count > limits.connection_peer_count_max:
        if not _ended(load, load.unproven.oldest(peer)):
            refused = (
                "peer",
                (
                    f"Your address has {limits.connection_peer_count_max} connections of this "
                    "door, and others need some too; close idle ones, or raise "
                    "http.connections_peer_max."
                ),
            )
    elif len(load.connections) - load.placeless_count > limits.connection_count_max:
        chosen = _for_probes(newcomer, peer, load, limits) if makes_room else None
        if not _ended(load, chosen or load.unproven.next_to_go(peer)):
            refused = (
                "full",
                (
                    "The door has as many connections as it takes; close idle ones, or raise "
                    "http.connections_max."
                ),
            )
    if refused is None:
        load.unproven.add(newcomer, peer)
        return load.share_of_peer(peer)
    load.went(peer)
    load.placeless_count += 1
    if load.placeless_count > _TOLD_COUNT_MAX:
        return None
    why, sentence = refused
    load.refused(why, peer, sentence)
    return TooManyConnections(sentence, retry_after_s=limits.retry_after_s)


def prove(
    connection: OpenConnection, name: str | None, load: Load, limits: Limits, *, makes_room: bool
) -> Share | TooManyConnections:
    """It makes no room for strangers any more: the guard has let this identity in over it.

    The share that it counts in until it is gone; or why it stays as it is, which its next request
    may change. Nobody's share, where none is told apart.
    """
    share = Share() if name is None else load.share_of_identity(name)
    if not makes_room and share.connection_count >= limits.connection_identity_count_max:
        sentence = (
            f"Your identity has {limits.connection_identity_count_max} connections of this door, "
            "from all addresses together, and others need some too; close idle ones, or raise "
            "http.connections_max."
        )
        load.refused("identity", f"identity {name}", sentence)
        return TooManyConnections(sentence, retry_after_s=limits.retry_after_s)
    share.connection_count += 1
    load.unproven.discard(connection)
    return share


def _for_probes(
    newcomer: OpenConnection, peer: str, load: Load, limits: Limits
) -> OpenConnection | None:
    unproven = load.unproven
    if len(unproven) * _UNPROVEN_PART > limits.connection_count_max:
        return unproven.next_to_go(peer)
    others = (other for other in load.connections if other is not newcomer)
    proven = (cast("_Placed", other) for other in others if other not in unproven)
    waiting = (other for other in proven if other.is_waiting)
    return min(waiting, key=_opened_s, default=None)


def _opened_s(connection: _Placed) -> float:
    return connection.opened_s


def _ended(load: Load, chosen: OpenConnection | None) -> bool:
    if chosen is None:
        return False
    load.unproven.discard(chosen)
    load.connections.discard(chosen)  # now: others may come before its transport has closed
    chosen.abort()
    return True
