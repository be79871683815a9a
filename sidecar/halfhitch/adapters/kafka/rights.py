"""What the user of a Kafka client may do, against what a sidecar does: for `doctor`.

Owns `inspect_rights`. A broker tells whoever asks what he may do with a topic, so this changes
nothing and needs no right to look at others'. Of groups it would tell too, but what the admin
client asks a coordinator can end the process (stored.py), so it is tried. Of transactional ids it
does not tell, so nothing is said of them. A Kafka without an authorizer allows everything. Blocks.
"""

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient  # type: ignore[attr-defined]

from halfhitch.adapters.kafka.errors import describe
from halfhitch.adapters.kafka.stored import StoredOffsets
from halfhitch.adapters.kafka.topic_checks import Finding, Severity
from halfhitch.errors import ConfigurationError, HalfHitchError
from halfhitch.wire.topics import InternalTopics

_READ, _WRITE = AclOperation.READ, AclOperation.WRITE
_DELETE, _SETTINGS = AclOperation.DELETE, AclOperation.DESCRIBE_CONFIGS
_LOG: Final = (_READ, _WRITE, _DELETE, _SETTINGS)
_KEPT: Final = (_READ, _WRITE, _SETTINGS)
_NAMES: Final[Mapping[Any, str]] = {
    _READ: "Read",
    _WRITE: "Write",
    _DELETE: "Delete",
    _SETTINGS: "DescribeConfigs",
}
_TARGETS_MAX: Final = 1_000
_NAMED_MAX: Final = 5


def inspect_rights(
    admin: AdminClient,
    stored_offsets: Callable[[str], StoredOffsets],
    names: InternalTopics,
    allow: Sequence[str],
    *,
    has_audit: bool,
    wait_s: float,
) -> list[Finding]:
    """One finding; `allow` are the patterns of topics that messages may go to.

    Of the group in which instances tell each other their bounds `inspect_bounds` tells.
    """
    needed = {names.half: _LOG, names.op: _LOG, names.parked: _KEPT}
    if has_audit:
        needed[names.audit] = _KEPT
    try:
        known = admin.list_topics(timeout=wait_s).topics
        targets = [
            topic
            for topic in sorted(known)
            if topic not in names.reserved
            and not topic.startswith("__")
            and any(fnmatchcase(topic, pattern) for pattern in allow)
        ][:_TARGETS_MAX]
        needed |= dict.fromkeys(targets, (_WRITE, _SETTINGS))
        missing = _of_topics(admin, needed, wait_s) | _of_groups(stored_offsets, names, wait_s)
    except KafkaException as error:
        sentence = f"What this user may do could not be asked: {describe(error)}."
        return [Finding("rights", Severity.WARN, sentence, "Run this again.", may_pass=True)]
    if not missing:
        sentence = (
            f"This user may do what a sidecar does with its topics, its groups and {len(targets)} "
            "targets."
        )
        return [Finding("rights", Severity.OK, sentence)]
    # Without these it takes nothing, or forwards nothing.
    vital = {f"topic {names.half}", f"topic {names.op}", f"group {names.owner_group}"}
    told = [f"{rights} on {what}" for what, rights in missing.items()]
    rest = f" and {len(told) - _NAMED_MAX} more" if len(told) > _NAMED_MAX else ""
    return [
        Finding(
            "rights",
            Severity.FAIL if vital & missing.keys() else Severity.WARN,
            f"This user has not what a sidecar needs: {'; '.join(told[:_NAMED_MAX])}{rest}.",
            "Allow it (docs/operations.md, What Kafka must allow). If the sidecar comes as another "
            "user, run this with its kafka.options.",
        )
    ]


def _of_topics(
    admin: AdminClient, needed: Mapping[str, Sequence[Any]], wait_s: float
) -> dict[str, str]:
    """What is missing, by topic; one that is not there is told by others."""
    answers = admin.describe_topics(
        TopicCollection(list(needed)), include_authorized_operations=True, request_timeout=wait_s
    )
    found = {}
    for name, wanted in needed.items():
        try:
            allowed = answers[name].result(wait_s).authorized_operations
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                continue  # it is not there, or its leader is away: others tell of that
            allowed = ()
        if allowed is None:  # a broker that does not tell
            continue
        lacking = [_NAMES[right] for right in wanted if right not in allowed]
        if lacking:
            found[f"topic {name}"] = ", ".join(lacking)
    return found


def _of_groups(
    stored_offsets: Callable[[str], StoredOffsets], names: InternalTopics, wait_s: float
) -> dict[str, str]:
    def read() -> None:
        action = f"store under the group {names.owner_group}"
        stored_offsets(names.owner_group).probe(f"{names.half}-nowhere", action)

    def described() -> None:
        action = f"read what is stored under the group {names.skips_group}"
        stored_offsets(names.skips_group).of([TopicPartition(names.half, 0)], wait_s, action)

    tries = ((names.owner_group, "Read", read), (names.skips_group, "Describe", described))
    found = {}
    for group, right, attempt in tries:
        try:
            attempt()
        except ConfigurationError:
            found[f"group {group}"] = right
        except HalfHitchError:
            continue  # Kafka is away, or the group is at work: that says nothing of rights
    return found
