"""What `verify` takes for the sidecar's settings: given ones, else those of a sidecar that answers.

With another prefix, allow list or time limit than the sidecar's, verify would take for lost what it
has only not looked for. A sidecar is believed only if it works on the same Kafka cluster, under the
same prefix; none need answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from halfhitch.config import Settings
from halfhitch.errors import BackendError, HalfHitchError, RequestError
from halfhitch.verify.bounds import Rules
from halfhitch.verify.kafka_targets import Wanted
from halfhitch_cli.answers import elsewhere, settings_of
from halfhitch_cli.client import AdminClient

_WAIT_S = 2.0
_PREFIX, _ALLOW = "topics.prefix", "topics.allow"
_STEP, _MEMORY = "owner.transaction_timeout_ms", "ledger.horizon_s"


class ElsewhereError(HalfHitchError):
    """Whoever looks at one cluster and believes that it is the sidecar's is to hear of it."""

    code = "another_cluster"


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to look, and who says so."""

    prefix: str
    wanted: Wanted
    rules: Rules
    #: Of the sidecar that was asked; None: nobody answered for this cluster and prefix.
    sidecar: str | None = None
    #: Something answers, but not the question: a sentence.
    trouble: str | None = None


def find_scope(settings: Settings, cluster_id: str, only: list[str]) -> Scope:
    """Asks the admin door of these settings; quick if nobody is there."""
    client = AdminClient.of(settings)
    trouble: str | None = None
    theirs: Mapping[str, Any] = {}
    try:
        theirs = _asked(client, cluster_id)
    except BackendError:
        pass  # nobody, or no sidecar: it is not needed
    except (RequestError, ElsewhereError) as error:
        trouble = error.message
    if _is_given(settings, _PREFIX) and theirs.get(_PREFIX) != settings.topics.prefix:
        theirs = {}
    values = {
        key: theirs[key] if key in theirs and not _is_given(settings, key) else mine
        for key, mine in (
            (_PREFIX, settings.topics.prefix),
            (_STEP, settings.owner.transaction_timeout_ms),
            (_MEMORY, settings.ledger.horizon_s),
        )
    }
    reach = tuple(str(theirs[_ALLOW]).split(",")) if theirs.get(_ALLOW) else ()
    allow, needed = settings.topics.allow, frozenset(settings.topics.allow) - set(reach)
    if not _is_given(settings, _ALLOW):
        allow, needed = reach or allow, frozenset()
    return Scope(
        str(values[_PREFIX]),
        Wanted(allow=allow, only=tuple(only), needed=needed, reach=reach),
        Rules(int(values[_STEP]), int(values[_MEMORY]) * 1000),
        client.address if theirs else None,
        trouble,
    )


def _asked(client: AdminClient, cluster_id: str) -> Mapping[str, Any]:
    """The sidecar's settings by key; none while it has not reached its Kafka.

    Raises ElsewhereError if that is another one.
    """
    _, status = client.get("/v1/status", wait_s=_WAIT_S)
    _, config = client.get("/v1/config", wait_s=_WAIT_S)
    try:
        info = status["info"]
        if (sentence := elsewhere(info, cluster_id, client.address)) is not None:
            raise ElsewhereError(sentence)
        if info["kafka_cluster_id"] is None:
            return {}
        return settings_of(config)
    except (KeyError, TypeError, AttributeError):
        raise BackendError(f"What answers on {client.address} is no sidecar.") from None


def _is_given(settings: Settings, key: str) -> bool:
    return key in settings.sources
