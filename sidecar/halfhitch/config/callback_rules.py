"""What is to be true of `checks.url` and the token; `rules.py` lists the rules."""

from urllib.parse import urlsplit

from halfhitch.config.loopback import is_loopback
from halfhitch.config.settings import Settings
from halfhitch.errors import ConfigurationError


def the_callback_may_be_called(settings: Settings) -> str | None:
    """The sidecar posts there by itself: an address nobody meant to give it is a hole."""
    checks = settings.checks
    if checks.url is None:
        return None
    from halfhitch.adapters.callback.target import Target

    try:
        Target.parse(checks.url, checks.url_networks)
    except ConfigurationError as error:
        return error.message
    return None


def the_callback_token_fits_a_header(settings: Settings) -> str | None:
    """A line break in it would begin a header of its own."""
    token = settings.checks.url_token
    text = "" if token is None else token.reveal()
    if text and (not text.isascii() or not text.isprintable() or " " in text):
        return (
            "checks.url_token cannot travel in an HTTP header: use printable ASCII without "
            "spaces; `halfhitch keygen` prints a good one."
        )
    return None


def the_callback_token_travels_encrypted(settings: Settings) -> str | None:
    """A name counts as another machine: where it leads to is known only when it is called."""
    checks = settings.checks
    if checks.url is None or checks.url_token is None or checks.url_encrypted_in_front:
        return None
    url = urlsplit(checks.url)
    if url.scheme == "https" or is_loopback(url.hostname or ""):
        return None
    return (
        f"checks.url leads to {url.hostname} without TLS, and what travels there is not encrypted: "
        "checks.url_token and messages could be read on the way. Call it with https://; or, if a "
        "mesh or a proxy in front of it encrypts, set checks.url_encrypted_in_front to true."
    )
