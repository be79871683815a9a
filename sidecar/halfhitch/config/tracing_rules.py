"""Rules for `tracing.endpoint`; as those in rules.py."""

import re
from typing import Final

from halfhitch.config.settings import Settings

_URL: Final = re.compile(r"https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?(/[!-~]*)?")


def traces_can_be_told(settings: Settings) -> str | None:
    """The owner tells them with its stories."""
    endpoint = settings.tracing.endpoint
    if endpoint is None:
        return None
    if not _URL.fullmatch(endpoint):
        return f"tracing.endpoint is no URL: {endpoint[:100]!r}; such as http://127.0.0.1:4318."
    if not settings.audit.enabled:
        return "tracing.endpoint needs audit.enabled: set that to true, or unset tracing.endpoint."
    return None
