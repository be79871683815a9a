"""Commands and an admin door that speaks TLS: flags and environment, and what failures mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from halfhitch.config import Purpose, load
from halfhitch.doors.tls import ServerTls
from halfhitch.errors import BackendError, RequestError
from halfhitch_cli.app import main
from halfhitch_cli.client import AdminClient
from harness.admin_door import admin_door
from harness.certificates import Authority
from harness.fake_operations import FakeOperations

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def tls(authority: Authority) -> ServerTls:
    pair = authority.issue("admin")
    files = pair.files(
        "admin",
        client_ca=authority.certificate,
        clients="wanted",
        protocols=("http/1.1",),
        tells_without_certificate=True,
    )
    return ServerTls(files, lambda: 0)


@pytest.fixture
def port(tls: ServerTls) -> Iterator[int]:
    with admin_door(FakeOperations(), {}, info={"instance": "shop-1"}, tls=tls) as port:
        yield port


def client(port: int, **given: object) -> AdminClient:
    flags = {key.replace("__", "."): value for key, value in given.items()}
    return AdminClient.of(load({"admin.port": port, **flags}, purpose=Purpose.CLIENT))


def test_with_the_authority_the_door_is_asked_over_tls(port: int, authority: Authority) -> None:
    door = client(port, client__ca_file=str(authority.certificate))
    assert door.address == f"https://127.0.0.1:{port}"
    assert door.get("/v1/status")[1]["info"]["instance"] == "shop-1"


def test_the_environment_says_it_as_well(
    port: int,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HALFHITCH_CLIENT_CA_FILE", str(authority.certificate))
    assert main(["status", "--admin-port", str(port)]) == 0
    assert "shop-1" in capsys.readouterr().out
    assert main(["tx", "list", "--admin-port", str(port)]) == 0


def test_a_door_that_is_called_in_clear_says_what_to_give(port: int) -> None:
    for path in ("/v1/status", "/readyz"):
        with pytest.raises(BackendError, match="--client-tls true"):
            client(port).get(path)


def test_an_authority_that_is_not_known_is_told(port: int) -> None:
    with pytest.raises(BackendError, match="HALFHITCH_CLIENT_CA_FILE"):
        client(port, client__tls=True).get("/v1/status")


def test_another_name_is_told_and_may_be_expected(port: int, authority: Authority) -> None:
    known = {"client__ca_file": str(authority.certificate), "admin__host": "127.0.0.1"}
    with pytest.raises(BackendError, match="not for 'sidecar'"):
        client(port, **known, client__server_name="sidecar").get("/v1/status")
    assert client(port, **known, client__server_name="localhost").get("/v1/status")


def test_tls_to_a_door_that_speaks_none_is_told(authority: Authority) -> None:
    with admin_door(FakeOperations(), {}) as port:
        known = {"client__ca_file": str(authority.certificate)}
        with pytest.raises(BackendError, match="does not speak TLS"):
            client(port, **known).get("/v1/status")
        # Nothing of it was read: no "whether it was done is not known".
        with pytest.raises(BackendError, match="does not speak TLS"):
            client(port, **known).post("/v1/transactions/g/i/commit", {"reason": "x"})


def test_a_missing_client_certificate_is_told(authority: Authority, tmp_path: Path) -> None:
    own = Authority(tmp_path / "own")
    files = own.issue("strict").files(
        "admin", client_ca=own.certificate, clients="required", tells_without_certificate=True
    )
    operator = own.issue("operator", use="client")
    with admin_door(FakeOperations(), {}, tls=ServerTls(files, lambda: 0)) as port:
        known = {"client__ca_file": str(own.certificate)}
        with pytest.raises(RequestError, match="asks for a client certificate"):
            client(port, **known).get("/v1/status")
        shown = {"client__cert_file": operator.paths[0], "client__key_file": operator.paths[1]}
        assert client(port, **known, **shown).get("/v1/status")[0] == 200
