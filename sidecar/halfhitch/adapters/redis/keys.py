"""Names of the keys, how long each lives, and the text that stands for a transaction.

Owns every key: `hh:<cluster>:` and then

    due:{partition}          sorted set  member -> due time of the next check, ms
    tx:{partition}:{member}  hash        one doubt, see doubts.py
    producers:{group}        sorted set  instance -> expiry of its presence, ms of Redis's own clock
    inbox:{instance}         stream      fields k (kind) and b (body)
    owner:{partition}        string      instance
    whole:{partition}        string      the list's number, while it has all that its owner knows
    name:{instance}      string      mark of the process that has this name, see namesake.py
    canary:{instance}:{process}[:n]      string, see canary.py; of each process, since by mistake
                                         two may have one name

A *member* is `group:id`, both percent encoded, so that the one colon always parts them and two
groups may use the same id. Only letters, digits and `_.-~` stay as they are: no name that a user
chose can hold a brace, which Redis Cluster would take for a hash tag.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from halfhitch.core.model import Identity, ProducerGroup, TransactionId

#: due and tx, unless the constructor of RedisIndex says otherwise: the default age limit of a
#: pending transaction (72 h) and an hour. Each write begins it anew; the owner keeps due alive.
KEPT_S: Final = 73 * 3600
#: How long an instance is believed to have producers, a partition its owner, and a list to be
#: whole, after it was last said. It is said every second (writer.PULSE_S).
PRESENCE_S: Final = 6.0
#: producers: the key as a whole, in case that nobody is left to take old members out.
PRODUCERS_KEPT_S: Final = 60
#: inbox: nobody has written to it for so long.
INBOX_KEPT_S: Final = 60
#: canary: an instance that was away for longer finds it gone and rebuilds, which does no harm.
CANARY_KEPT_S: Final = 3600

_MEMBER_BYTES_MAX: Final = 2 * 3 * 255 + 1


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys of one cluster name."""

    prefix: str

    def due(self, partition: int) -> str:
        """Sorted set of the undecided of a half partition."""
        return f"{self.prefix}due:{partition}"

    def tx(self, partition: int, member: str) -> str:
        """Hash of one undecided transaction."""
        return f"{self.prefix}tx:{partition}:{member}"

    def producers(self, producer_group: str) -> str:
        """Sorted set of the instances with live producers of the group."""
        return f"{self.prefix}producers:{quoted(producer_group)}"

    def inbox(self, instance: str) -> str:
        """Stream of what other instances hand over."""
        return f"{self.prefix}inbox:{quoted(instance)}"

    def owner(self, partition: int) -> str:
        """String: who owns the half partition."""
        return f"{self.prefix}owner:{partition}"

    def whole(self, partition: int) -> str:
        """String: which list of the undecided this is, once it is whole."""
        return f"{self.prefix}whole:{partition}"

    def name(self, instance: str) -> str:
        """String: which process has this name, see namesake.py."""
        return f"{self.prefix}name:{quoted(instance)}"

    def canary(self, instance: str, process: str, number: int | None = None) -> str:
        """String: a counter that only rises, see canary.py; numbered in a Redis Cluster."""
        name = f"{self.prefix}canary:{quoted(instance)}:{process}"
        return name if number is None else f"{name}:{number}"


def keys_of(cluster: str) -> Keys:
    """The keys of a cluster name; characters with a meaning of their own are encoded."""
    return Keys(f"hh:{quoted(cluster)}:")


def quoted(text: str) -> str:
    """Percent encoded, reversible for any text."""
    return quote(text, safe="", errors="surrogatepass")


def member_of(identity: Identity) -> str:
    """The text that stands for a transaction."""
    group, transaction_id = identity
    return f"{quoted(group)}:{quoted(transaction_id)}"


def identity_of(raw: object) -> Identity | None:
    """Whom a member stands for; None for anything that `member_of` never writes."""
    if not isinstance(raw, bytes) or len(raw) > _MEMBER_BYTES_MAX or not raw.isascii():
        return None
    group, separator, transaction_id = raw.decode("ascii").partition(":")
    try:
        found = (
            ProducerGroup(unquote(group, errors="strict")),
            TransactionId(unquote(transaction_id, errors="strict")),
        )
    except UnicodeDecodeError:
        return None
    if not separator or not group or not transaction_id or member_of(found).encode() != raw:
        return None
    return found
