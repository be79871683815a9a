"""Rights that can be taken away: whoever comes through the proxies has a name of its own.

By default it may do everything. Everybody else, the brokers among them, always may.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka.admin import AdminClient

_PRINCIPAL = "sidecar"
#: Of the brokers.
PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
    "listener.security.protocol.map": (
        "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXY:SASL_PLAINTEXT"
    ),
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.proxy.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required"
        f' user_{_PRINCIPAL}="not a secret";'
    ),
}
#: Of a sidecar, as its setting kafka.options.
OPTIONS = (
    f"security.protocol=SASL_PLAINTEXT,sasl.mechanism=PLAIN,sasl.username={_PRINCIPAL},"
    "sasl.password=not a secret"
)


@contextmanager
def without_write(admin: AdminClient, topic: str) -> Iterator[None]:
    """Describe and Read are left, Write is not; in the end everything is allowed again."""
    left = [
        AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            f"User:{_PRINCIPAL}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for operation in (AclOperation.DESCRIBE, AclOperation.READ)
    ]
    all_of_it = AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    for future in admin.create_acls(left).values():
        future.result(15)
    try:
        yield
    finally:
        for removed in admin.delete_acls([all_of_it]).values():
            removed.result(15)
