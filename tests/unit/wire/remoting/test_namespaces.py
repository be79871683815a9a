"""Namespaces: split off and put on, once, behind the prefixes of retry and dead letters."""

from __future__ import annotations

import pytest

from halfhitch.wire.remoting.namespaces import join, split


@pytest.mark.parametrize(
    ("resource", "namespace", "name"),
    [
        ("orders", None, "orders"),
        ("ns%orders", "ns", "orders"),
        ("%RETRY%ns%group", "ns", "%RETRY%group"),
        ("%RETRY%group", None, "%RETRY%group"),
        ("%DLQ%ns%group", "ns", "%DLQ%group"),
        ("%orders", None, "%orders"),
        ("ns%", None, "ns%"),
    ],
)
def test_a_namespace_is_split_off(resource: str, namespace: str | None, name: str) -> None:
    assert split(resource) == (namespace, name)


@pytest.mark.parametrize(
    ("namespace", "resource", "joined"),
    [
        (None, "orders", "orders"),
        ("", "orders", "orders"),
        ("ns", "orders", "ns%orders"),
        ("ns", "ns%orders", "ns%orders"),
        ("ns", "%RETRY%group", "%RETRY%ns%group"),
    ],
)
def test_a_namespace_is_put_on_once(namespace: str | None, resource: str, joined: str) -> None:
    assert join(namespace, resource) == joined
