"""Namespaces: `ns%topic` of older clients, two fields beside the topic of newer ones.

The resource that retries and dead letters have around a group (`%RETRY%ns%group`) keeps its prefix.
"""

from typing import Final

SEPARATOR: Final = "%"
_PREFIXES: Final = ("%RETRY%", "%DLQ%")


def split(resource: str) -> tuple[str | None, str]:
    """Namespace and bare name of a topic or group."""
    prefix = next((known for known in _PREFIXES if resource.startswith(known)), "")
    namespace, separator, name = resource[len(prefix) :].partition(SEPARATOR)
    if not separator or not namespace or not name:
        return None, resource
    return namespace, prefix + name


def join(namespace: str | None, resource: str) -> str:
    """The name with its namespace in front, once."""
    if not namespace or split(resource)[0] == namespace:
        return resource
    prefix = next((known for known in _PREFIXES if resource.startswith(known)), "")
    return f"{prefix}{namespace}{SEPARATOR}{resource[len(prefix) :]}"
