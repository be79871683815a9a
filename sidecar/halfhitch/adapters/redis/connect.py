"""Clients of redis-py for an address, and its errors as sentences for people.

Owns how connections are made: RESP 2 (every server since 5.0 speaks it), bounded waits, no retries
of the library's own (a repeated batch must be ours to judge), nothing decoded. No sentence made
here repeats what the server or the library wrote, which might hold a password or a user's bytes.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from redis import Redis, RedisCluster
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    MaxConnectionsError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError, Sentinel

from halfhitch.adapters.redis.address import RedisAddress

Client = Any  # Redis or RedisCluster: what we call is the same, their types are not
Command = tuple[Any, ...]

# redis-py gives no types to these.
_sentinel: Final[Any] = Sentinel
_node: Final[Any] = ClusterNode
_CODE: Final = re.compile(r"[A-Z]{3,20}")


def connect(address: RedisAddress, *, wait_s: float) -> Client:
    """A client that uses one connection at a time; no call waits longer than `wait_s` for one
    answer. A server and a socket are connected on first use, the others at once."""
    options = _options(address, wait_s)
    if address.kind == "socket":
        return Redis(unix_socket_path=address.path, db=address.database, **options)
    options.update(_tls_options(address))
    if address.kind == "server":
        host, port = address.hosts[0]
        return Redis(host=host, port=port, db=address.database, **options)
    if address.kind == "sentinel":
        login = {"username": address.sentinel_username, "password": address.sentinel_password}
        sentinel: Any = _sentinel(
            list(address.hosts), sentinel_kwargs={**options, **login}, **options
        )
        return sentinel.master_for(address.service, redis_class=Redis, db=address.database)
    nodes = [_node(host, port) for host, port in address.hosts]
    # A dead node must be found dead at the first try, not be asked again and again.
    return RedisCluster(startup_nodes=nodes, reinitialize_steps=1, **options)


def _options(address: RedisAddress, wait_s: float) -> dict[str, Any]:
    return {
        "username": address.username,
        "password": address.password,
        "socket_timeout": wait_s,
        "socket_connect_timeout": wait_s,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
        "decode_responses": False,
    }


def _tls_options(address: RedisAddress) -> dict[str, Any]:
    if not address.is_tls:
        return {}
    options: dict[str, Any] = {
        "ssl_cert_reqs": "required",
        "ssl_check_hostname": True,
        "ssl_ca_certs": address.ca,
        "ssl_certfile": address.cert,
        "ssl_keyfile": address.key,
    }
    # Sentinel makes pools itself, and chooses the class of their connections by this.
    return {**options, "ssl": True}


def close(client: Client | None) -> None:
    """Let go of the connections, whatever state they are in."""
    if client is None:
        return
    try:
        if is_cluster(client):
            client.close()
        else:
            client.connection_pool.disconnect()
    except Exception:  # noqa: BLE001, S110 - it is being thrown away because it is broken
        pass


def run(client: Client, commands: Sequence[Command]) -> list[Any]:
    """All in one round trip (in a Redis Cluster: one for each server); errors of single commands
    stand among the answers. Raises what redis-py raises when there is no answer."""
    if not commands:
        return []
    with client.pipeline(transaction=False) as pipeline:
        for command in commands:
            pipeline.execute_command(*command)
        return list(pipeline.execute(raise_on_error=False))


def is_cluster(client: Client) -> bool:
    """Whether keys lie on several servers."""
    return isinstance(client, RedisCluster)


def primary_count(client: Client) -> int:
    """How many servers hold keys, each with a history of its own."""
    return len(client.get_primaries()) if is_cluster(client) else 1


def server_of(client: Client, key: str) -> str:
    """Which server of a Redis Cluster holds the key."""
    return str(client.get_node_from_key(key).name)


def server_time_ms(client: Client) -> int:
    """The clock that presence goes by: it is the same for all instances."""
    if is_cluster(client):
        seconds, microseconds = client.time(target_nodes=client.get_primaries()[0])
    else:
        seconds, microseconds = client.time()
    return int(seconds) * 1000 + int(microseconds) // 1000


def is_garbage(answer: object) -> bool:
    """The key holds something that is none of ours: another type, a stream that can take no more
    because its last id was set to the highest."""
    return isinstance(answer, ResponseError) and str(answer).startswith(_GARBAGE)


def sentence(error: BaseException, address: RedisAddress) -> str:
    """What is wrong and what to do next."""
    where = f"Redis at {address.label}"
    for kind, says in _SENTENCES:
        if isinstance(error, kind):
            return f"{where} {says}"
    text = str(error)
    for part, says in _PARTS:
        if part in text:
            return f"{where} {says}"
    if isinstance(error, RedisConnectionError | RedisTimeoutError | OSError):
        how = " over TLS: see that it speaks TLS on this port," if address.is_tls else ": see"
        return f"{where} does not answer{how} that it runs, and that redis.url leads to it."
    match = _CODE.match(text)
    code = match[0] if match is not None else type(error).__name__
    return f"{where} answers with an error ({code}): its own log says more."


_GARBAGE: Final = (
    "WRONGTYPE",
    "The stream has exhausted",
    "The ID specified in XADD",
)
_LOGIN: Final = "refuses the login: put the right user and password into redis.url."
_RIGHTS: Final = (
    "does not permit what is needed: give the user of redis.url the keys ~hh:* and the commands "
    "+@read +@write +@connection +time (in a Redis Cluster +cluster as well)."
)
_FULL: Final = (
    "is full and takes no more writes: raise its maxmemory. Transactions are not affected."
)
_READ_ONLY: Final = (
    "is a replica and takes no writes: let redis.url lead to the primary, or to the Sentinels "
    "(redis+sentinel://)."
)
_LOADING: Final = "is still reading its data from disk: this passes by itself."

#: The more special kinds first: some derive from the connection error.
_SENTENCES: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (AuthenticationError, _LOGIN),
    (AuthorizationError, _LOGIN),
    (NoPermissionError, _RIGHTS),
    (OutOfMemoryError, _FULL),
    (ReadOnlyError, _READ_ONLY),
    (BusyLoadingError, _LOADING),
    (MaxConnectionsError, "has no connection left for us: raise its maxclients."),
    (
        MasterNotFoundError,
        "is not known to any Sentinel: see that they run, and the service's name in redis.url.",
    ),
)
_PARTS: Final = (
    ("WRONGPASS", _LOGIN),
    ("NOAUTH", _LOGIN),
    ("invalid password", _LOGIN),
    ("invalid username-password", _LOGIN),
    ("Authentication required", _LOGIN),
    ("NOPERM", _RIGHTS),
    ("OOM", _FULL),
    ("READONLY", _READ_ONLY),
    ("LOADING", _LOADING),
    ("max number of clients", "has no connection left for us: raise its maxclients."),
    ("MISCONF", "takes no writes because it cannot save its data to disk: see its log."),
    ("NOREPLICAS", "takes no writes because too few replicas are connected to it."),
    ("MASTERDOWN", "is a replica without its primary: let redis.url lead to the primary."),
    ("CLUSTERDOWN", "is a cluster with a part missing: `redis-cli cluster info` says which."),
    ("certificate verify failed", "shows a certificate that is not trusted: name its CA with ca=."),
    ("SSL", "cannot be reached over TLS: see rediss:// in redis.url, its port and certificates."),
)
