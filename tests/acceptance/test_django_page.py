"""docs/django.md as it stands there: a project that serves, before a sidecar on a real Kafka."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

from harness.kafka import create_topics, fresh_name, read_all, values, wait_until
from harness.places import ROOT
from harness.sidecar import Sidecar
from harness.snippets import fence_with, fences, replaced

if TYPE_CHECKING:
    from pathlib import Path

    from halfhitch.embedded import EmbeddedKafka

PAGE = "docs/django.md"
#: What `startproject` and `startapp` make, as far as it matters here.
SETTINGS = """
SECRET_KEY = "of a test"
ALLOWED_HOSTS = ["*"]
INSTALLED_APPS = ["shop"]
ROOT_URLCONF = "shop.urls"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {"default": {
    "ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db",
    "OPTIONS": {"init_command": "PRAGMA journal_mode=wal", "timeout": 20},
}}
"""
MODELS = """
from django.db import models

class Order(models.Model):
    item = models.CharField(max_length=64, unique=True)
"""
URLS = """
from django.urls import path

from shop import views

urlpatterns = [path("order", views.order)]
"""


def make_project(folder: Path, topic: str) -> None:
    package = folder / "shop"
    package.mkdir()
    files = {
        "__init__.py": "",
        "settings.py": SETTINGS + fence_with(PAGE, "INSTALLED_APPS +="),
        "models.py": MODELS,
        "urls.py": URLS,
        "views.py": replaced(fence_with(PAGE, "@transaction.atomic"), '"orders"', f'"{topic}"'),
        "tests.py": replaced(fence_with(PAGE, "TestCase"), '"orders"', f'"{topic}"'),
    }
    for name, text in files.items():
        (package / name).write_text(text)
    (folder / "manage.py").write_text(
        "import sys\nfrom django.core.management import execute_from_command_line\n"
        "execute_from_command_line(sys.argv)\n"
    )


def environment(folder: Path, address: str) -> dict[str, str]:
    paths = os.pathsep.join([str(ROOT / "sidecar"), str(ROOT / "cli"), str(folder)])
    return {
        **os.environ,
        "PYTHONPATH": paths,
        "DJANGO_SETTINGS_MODULE": "shop.settings",
        "HALFHITCH_ADDRESS": address,
    }


def manage(folder: Path, address: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=folder,
        env=environment(folder, address),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def start(folder: Path, address: str, *words: str) -> subprocess.Popen[bytes]:
    with (folder / f"{words[0]}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "manage.py", *words],
            cwd=folder,
            env=environment(folder, address),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def commands() -> list[list[str]]:
    """Those of manage.py that the page shows."""
    lines = [line for fence in fences(PAGE, "sh") for line in fence.splitlines()]
    return [line.partition("#")[0].split()[2:] for line in lines]


def test_the_page_s_test_passes_with_django_s_own_runner(tmp_path: Path) -> None:
    make_project(tmp_path, "orders")
    manage(tmp_path, "http://127.0.0.1:1", "makemigrations", "shop")
    assert "OK" in manage(tmp_path, "http://127.0.0.1:1", "test", "--noinput")


@pytest.mark.kafka
def test_the_page_s_project_agrees_with_its_topic(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    topic = fresh_name("django")
    create_topics(kafka.bootstrap, {topic: 1})
    make_project(tmp_path, topic)
    migrate, checks, purge = commands()
    given = {"HALFHITCH_TOPICS_PREFIX": topic + "-", "HALFHITCH_TOPICS_CREATE": "true"}
    with Sidecar(kafka.bootstrap, tmp_path, **given) as sidecar:
        sidecar.wait_ready()
        manage(tmp_path, sidecar.address, "makemigrations", "shop")
        manage(tmp_path, sidecar.address, *migrate)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        serve = ["runserver", "--noreload", str(port)]
        servers = [start(tmp_path, sidecar.address, *words) for words in (serve, checks)]

        def get(item: str) -> int:
            try:
                with urlopen(f"http://127.0.0.1:{port}/order?item={item}", timeout=60) as answer:
                    return int(answer.status)
            except HTTPError as error:
                with error:
                    return error.code
            except URLError:
                return 0

        try:
            wait_until(lambda: get("book") == 200, 60, what="the server")
            assert [get(item) for item in ("pen", "book", "ink")] == [200, 500, 200]
            wait_until(lambda: len(read_all(kafka.bootstrap, topic)) >= 3, 40, what="messages")
            assert "0 rows deleted" in manage(tmp_path, sidecar.address, *purge)
            for server in servers:
                server.send_signal(signal.SIGTERM)
            assert servers[1].wait(30) == 0
        finally:
            for server in servers:
                if server.poll() is None:
                    server.kill()
                server.wait(20)
        assert sorted(values(read_all(kafka.bootstrap, topic))) == [b"book", b"ink", b"pen"]
