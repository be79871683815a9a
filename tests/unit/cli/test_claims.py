"""What one `halfhitch dev` claims."""

from __future__ import annotations

import socket
import tempfile
from typing import TYPE_CHECKING, Any

from halfhitch_cli.claims import usual_port
from harness.contained import free_port

if TYPE_CHECKING:
    from pathlib import Path


def test_the_usual_port_is_taken_only_when_it_is_free() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with usual_port(port) as is_ours:
            assert not is_ours
    with usual_port(port) as is_ours:
        assert is_ours


def test_two_that_began_at_once_took_one_port(tmp_path: Path, monkeypatch: Any) -> None:
    """Kafka's, Redis's or the RocketMQ door's: one of them ended for want of it."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    port = free_port()
    with usual_port(port) as is_ours:
        assert is_ours
        with usual_port(port) as is_anothers:
            assert not is_anothers
    with usual_port(port) as is_ours:
        assert is_ours
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "gone"))
    with usual_port(port) as is_ours:
        assert is_ours, "where nothing can be written only the look tells"
