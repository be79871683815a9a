"""What the groups of settings are made of."""

from typing import Annotated

import msgspec
from msgspec import Meta

Text = Annotated[str, Meta(min_length=1)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that share the first part of their key."""
