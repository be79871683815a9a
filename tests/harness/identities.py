"""Identities for tests: two teams that are strangers, and who looks after one of them, or all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from halfhitch.access import Access, Identity, Right
from halfhitch.access.identities import token_digest

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Tokens are their names, doubled.
SHOP = "shop-team-shop-team"
BANK = "bank-team-bank-team"
KEEPER = "shop-keeper-shop-keeper"
WATCHER = "watcher-watcher"
ROOT = "root-of-all-root-of-all"


def identity(
    name: str,
    token: str,
    *rights: Right,
    groups: Iterable[str] = (),
    topics: Iterable[str] = (),
    keys: Iterable[str] = (),
) -> Identity:
    """One with a token."""
    return Identity(
        name=name,
        rights=frozenset(rights),
        groups=tuple(groups),
        topics=tuple(topics),
        token_hashes=(token_digest(token.encode()),),
        access_keys=tuple(keys),
    )


def shop(**more: Iterable[str]) -> Identity:
    """Prepares for group shop, to topic orders, and answers its checks."""
    return identity(
        "shop",
        SHOP,
        Right.PRODUCE,
        Right.CHECK,
        **{"groups": ("shop",), "topics": ("orders",), "keys": ("shop-key",), **more},
    )


def bank() -> Identity:
    """The same for group bank, and to payments."""
    return identity(
        "bank",
        BANK,
        Right.PRODUCE,
        Right.CHECK,
        groups=("bank",),
        topics=("payments",),
        keys=("bank-key",),
    )


def everybody() -> tuple[Identity, ...]:
    """All of them."""
    return (
        shop(),
        bank(),
        identity("keeper", KEEPER, Right.OPERATE, groups=("shop",)),
        identity("watcher", WATCHER, Right.OBSERVE, groups=("*",)),
        identity("root", ROOT, Right.ADMIN),
    )


def access_with(*tokens: str) -> Access:
    """Whoever shows one of these tokens may do everything; without any, everybody may."""
    return Access(tokens=[token.encode() for token in tokens])


def access() -> Access:
    """A register of all of them."""
    return Access(identities=everybody())
