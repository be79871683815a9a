"""Splitting a URL that names several hosts."""

import re
from urllib.parse import SplitResult, urlsplit

_PARTS = re.compile(r"([^:/?#]*)://([^/?#]*)(.*)", re.DOTALL)


def split_hosts(url: str) -> SplitResult:
    """As `urlsplit`, but nothing is asked of what stands between `//` and the path.

    Python's own refuses brackets anywhere but around the only host, since 3.11.12, 3.12.9 and
    3.13.2: `redis+cluster://a,[::1]:6379` was no URL any more. Never raises; what is no URL at all
    comes back as a path.
    """
    found = _PARTS.fullmatch(url)
    if found is None:
        return SplitResult("", "", url, "", "")
    scheme, hosts, behind = found.groups()
    return urlsplit(f"x://h{behind}")._replace(scheme=scheme.lower(), netloc=hosts)
