"""The one error of the embedded servers.

Owns `EmbeddedError`: every failure a person can act on (no Java, no network, a server that would
not start) is raised as this class, and its text says what is wrong and what to do next.
It does not cover wrong use of the API, which raises `ValueError` or `RuntimeError` as usual.
"""

from __future__ import annotations

from halfhitch.errors import HalfHitchError


class EmbeddedError(HalfHitchError):
    """An embedded server cannot be had or did not start; the text names the next step."""

    code = "embedded_unavailable"
