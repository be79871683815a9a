"""What `checks.url` and its token must be like; the shared table in test_rules.py has the rest."""

import pytest

from halfhitch.config import Purpose, load
from halfhitch.errors import ConfigurationError

TOKEN = "callback-token"


def settled(url: str, **more: object) -> None:
    given = {"checks.url": url, "checks.url_networks": "10.0.0.0/8", **more}
    load({key.replace("__", "."): value for key, value in given.items()}, purpose=Purpose.CLIENT)


@pytest.mark.parametrize(
    "url", ["http://10.1.2.3:80/c", "http://shop.svc/c", "http://[::ffff:10.0.0.1]/"]
)
def test_the_callbacks_token_does_not_travel_in_clear(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"checks\.url_encrypted_in_front") as raised:
        settled(url, checks__url_token=TOKEN)
    assert TOKEN not in raised.value.message
    settled(url, checks__url_token=TOKEN, checks__url_encrypted_in_front=True)
    settled(url.replace("http:", "https:"), checks__url_token=TOKEN)
    settled(url)


@pytest.mark.parametrize("url", ["http://127.0.0.1/c", "http://localhost:80/c", "http://[::1]:9/"])
def test_on_this_machine_the_callbacks_token_may(url: str) -> None:
    settled(url, checks__url_token=TOKEN)
