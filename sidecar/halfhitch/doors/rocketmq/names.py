"""Topics and groups with namespaces: as a client writes them, and as Kafka and the service do.

A client writes `ns%orders` (older ones), or `orders` and the namespace in a field of its own (newer
ones). Kafka's topic names may hold no `%`, but RocketMQ's may hold no dot: the Kafka topic is
`ns.orders`, and two namespaces never share one by accident. The producer group stays `ns%group` in
both cases, so that groups of two namespaces stay apart too.
"""

from typing import Final

from halfhitch.wire.remoting import namespaces
from halfhitch.wire.remoting.fields import optional_text, yes
from halfhitch.wire.remoting.requests import Frame

_DOT: Final = "."


def namespace_of(frame: Frame) -> str | None:
    """The namespace that a newer client names in a field of its own."""
    fields = frame.fields
    return optional_text(fields, "ns") if yes(fields, "nsd") else None


def group_of(namespace: str | None, group: str) -> str:
    """The producer group as the service knows it."""
    return group if namespace is None else namespaces.join(namespace, group)


def kafka_topic(namespace: str | None, topic: str) -> str:
    """The topic in Kafka. What is no topic there stays as it is, and is refused by its name."""
    if namespace is None and namespaces.SEPARATOR not in topic:
        return topic
    found, name = namespaces.split(namespaces.join(namespace, topic))
    return topic if found is None or name.startswith("%") else f"{found}{_DOT}{name}"


def client_names(group: str, topic: str, *, has_field: bool) -> tuple[str, str]:
    """Group and topic as the client that is asked about them writes them.

    `has_field`: it is one of those that name the namespace in a field of its own.
    """
    namespace, bare_group = namespaces.split(group)
    if namespace is None:
        return group, topic
    front = namespace + _DOT
    bare_topic = topic.removeprefix(front)
    if has_field:
        return bare_group, bare_topic
    if bare_topic is topic:
        return group, topic
    return group, f"{namespace}{namespaces.SEPARATOR}{bare_topic}"
