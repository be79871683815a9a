"""An authority of our own, and certificates that it has signed: by the program openssl."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

#: From long ago to long from now.
_FROM, _TO = "20200101000000Z", "20991231000000Z"
#: From then to then: over.
LONG_AGO = ("20200101000000Z", "20200201000000Z")
_USES = {"server": "serverAuth", "client": "clientAuth"}
_POLICY = """
[ca]
default_ca = this
[this]
database = {folder}/index.txt
serial = {folder}/serial
new_certs_dir = {folder}
default_md = sha256
unique_subject = no
policy = any
[any]
commonName = optional
organizationName = optional
[issued]
basicConstraints = CA:false
authorityKeyIdentifier = keyid
extendedKeyUsage = {use}
{names}
"""


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, each in a file."""

    certificate: Path
    key: Path

    @property
    def paths(self) -> tuple[str, str]:
        return str(self.certificate), str(self.key)

    def files(self, door: str = "http", **more: Any) -> Any:
        """As a door is told of it."""
        from halfhitch.doors.tls import TlsFiles

        return TlsFiles(door=door, certificate=self.certificate, key=self.key, **more)

    def replace(self, other: Pair) -> None:
        """Put another pair into the place of this one."""
        for mine, its in ((self.certificate, other.certificate), (self.key, other.key)):
            mine.with_suffix(".new").write_bytes(its.read_bytes())
            mine.with_suffix(".new").replace(mine)


class Authority:
    """Signs what it is asked to."""

    def __init__(self, folder: Path, name: str = "Half Hitch tests") -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "index.txt").touch()
        (folder / "serial").write_text("01\n")
        self.certificate = folder / "ca.pem"
        self._key = folder / "ca.key"
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-days", "30", "-subj", f"/CN={name}"),
            *("-keyout", str(self._key), "-out", str(self.certificate)),
        )

    def issue(
        self,
        name: str,
        names: str = "DNS:localhost,IP:127.0.0.1,IP:::1",
        *,
        use: str = "server",
        valid: tuple[str, str] = (_FROM, _TO),
        subject: str | None = None,
    ) -> Pair:
        """`names` as openssl writes a subjectAltName, empty for none."""
        pair = Pair(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        request, policy = self.folder / f"{name}.csr", self.folder / f"{name}.cnf"
        named = f"subjectAltName = {names}" if names else ""
        policy.write_text(_POLICY.format(folder=self.folder, use=_USES[use], names=named))
        _openssl(
            *("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-subj", subject or f"/CN={name}", "-keyout", str(pair.key), "-out", str(request)),
        )
        _openssl(
            *("ca", "-batch", "-notext", "-config", str(policy)),
            *("-cert", str(self.certificate), "-keyfile", str(self._key)),
            *("-extensions", "issued", "-startdate", valid[0], "-enddate", valid[1]),
            *("-in", str(request), "-out", str(pair.certificate)),
        )
        return pair

    def below(self, name: str) -> Authority:
        """An authority whose certificate this one has signed."""
        folder = self.folder / name
        found = Authority(folder, name)
        request, constraints = folder / "ca.csr", folder / "ca.cnf"
        constraints.write_text("basicConstraints = critical,CA:true\nkeyUsage = keyCertSign\n")
        asked = ("req", "-new", "-key", str(found._key), "-subj", f"/CN={name}")
        _openssl(*asked, "-out", str(request))
        _openssl(
            *("x509", "-req", "-in", str(request), "-days", "30", "-CAcreateserial"),
            *("-CA", str(self.certificate), "-CAkey", str(self._key)),
            *("-extfile", str(constraints), "-out", str(found.certificate)),
        )
        return found


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, text=True)
