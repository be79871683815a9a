"""A token endpoint of our own: client credentials in, an unsecured JSON web token out."""

from __future__ import annotations

import base64
import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENT_ID: Final = "sidecar"
CLIENT_SECRET: Final = "not a secret"


def unsecured_token(subject: str = CLIENT_ID, *, valid_s: int = 300) -> tuple[str, float]:
    """What a Kafka for tests takes, and when it ends."""
    now_s = time.time()  # noqa: TID251 - a broker looks at it
    claims = {"sub": subject, "iat": now_s, "exp": now_s + valid_s, "scope": "kafka"}
    parts = ({"alg": "none", "typ": "JWT"}, claims)
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()) for part in parts)
    return ".".join(part.decode().rstrip("=") for part in encoded) + ".", now_s + valid_s


class TokenEndpoint:
    """What was asked of it, in its order: by whom, and with what."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                scheme, _, encoded = self.headers.get("Authorization", "").partition(" ")
                who = base64.b64decode(encoded).decode() if scheme == "Basic" else ""
                endpoint.asked.append((who, form))
                is_known = who == f"{CLIENT_ID}:{CLIENT_SECRET}"
                answer: dict[str, Any] = {"error": "invalid_client"}
                if is_known:
                    answer = {"access_token": unsecured_token()[0], "token_type": "Bearer"}
                body = json.dumps(answer).encode()
                self.send_response(200 if is_known else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/token"

    def options(self) -> dict[str, str]:
        """kafka.options that lead here, without the secret."""
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": CLIENT_ID,
            "sasl.oauthbearer.token.endpoint.url": self.url,
            "sasl.oauthbearer.scope": "kafka",
        }


@contextmanager
def token_endpoint() -> Iterator[TokenEndpoint]:
    """Open until the end of the block."""
    made = TokenEndpoint()
    serving = threading.Thread(
        target=made.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    serving.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()
        serving.join(20)
