"""The errors of the embedded servers.

Owns `EmbeddedError`: every failure a person can act on (no Java, no network, a server that would
not start) is raised as this class, and its text says what is wrong and what to do next.
`EmbeddedExtraMissing` says that what is missing comes with an extra.
They do not cover wrong use of the API, which raises `ValueError` or `RuntimeError` as usual.
"""

from __future__ import annotations

from halfhitch.errors import HalfHitchError
from halfhitch.extras import MissingExtra


class EmbeddedError(HalfHitchError):
    """An embedded server cannot be had or did not start; the text names the next step."""

    code = "embedded_unavailable"


class EmbeddedExtraMissing(EmbeddedError, MissingExtra):
    """It would be there with the extra `embedded`, or with a server of this machine's own."""
