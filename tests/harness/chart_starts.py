"""A rendered pod's program, started as far as it comes without servers.

Owns `Starts`: the secrets that a pod mounts become files, its variables the environment, and the
program's own loading, certificates and Kafka clients say whether they take it.
"""

from __future__ import annotations

import dataclasses
import logging
import subprocess
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException

from halfhitch.composition.options import engine_options, server_tls
from halfhitch.config import Purpose, Settings, load
from halfhitch.engine.kafka_clients import EngineClients
from halfhitch.errors import HalfHitchError
from halfhitch.wire.topics import InternalTopics
from harness.certificates import Authority

if TYPE_CHECKING:
    from pathlib import Path

    from halfhitch.engine.options import EngineOptions
    from harness.charts import Object

#: By the name of the file; those of PEM are made.
SECRETS: Final = {
    "handle-key": "a-key-of-sixteen-bytes-and-more",
    "auth-tokens": "a-token-that-is-long-enough-for-us",
    "redis-url": "redis://:secret@redis:6379/0",
    "checks-url-token": "a-token-for-the-callback",
    "rocketmq-access-keys": "access:secret-secret-secret",
    "kafka-password": "secret",
    "kafka-oauth-client-secret": "secret",
    "identities.toml": '[identities.ops]\ntokens = ["sha256:'
    + "0" * 64
    + '"]\nroles = ["observe"]\ngroups = ["*"]\n',
}


class Starts:
    """The files of every secret, and the verdicts."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder / "authority")
        pair = authority.issue("door")
        pem = {
            "tls.crt": pair.certificate,
            "tls.key": pair.key,
            "ca.crt": authority.certificate,
            "kafka-ca.pem": authority.certificate,
            "https-ca-location": authority.certificate,
            "kafka-certificate.pem": pair.certificate,
            "kafka-key.pem": pair.key,
            "ssl-crl-location": _revocations(authority, folder / "crl.pem"),
        }
        self._texts = SECRETS | {name: path.read_text() for name, path in pem.items()}
        self._folder = folder
        self._known: dict[str, str] = {}

    def refusal(self, pod: Object, container: Object) -> str:
        """What this container's program would end with as it starts; empty if it goes on."""
        environ = self._environ(pod, container)
        is_tool = container["args"] != ["serve"]
        try:
            settings = load(environ=environ, purpose=Purpose.TOOL if is_tool else Purpose.SERVE)
            for door in () if is_tool else ("http", "admin", "rocketmq"):
                server_tls(door, getattr(settings, door))
            return self._of_clients(settings)
        except HalfHitchError as error:
            return str(error)

    def _environ(self, pod: Object, container: Object) -> dict[str, str]:
        places = {}
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        for mount in container["volumeMounts"]:
            files = _files(volumes[mount["name"]])
            if files is not None:
                folder = self._folder / mount["name"]
                folder.mkdir(exist_ok=True)
                for old in folder.iterdir():
                    old.unlink()
                for name in files:
                    (folder / name).write_text(self._texts[name])
                places[f"{mount['mountPath']}/"] = f"{folder}/"
        environ = {}
        for one in container["env"]:
            text = one.get("value", "demo-0")
            for inside, outside in places.items():
                text = text.replace(inside, outside)
            environ[one["name"]] = text
        assert len(environ) == len(container["env"]), "a variable is there twice"
        return environ

    def _of_clients(self, settings: Settings) -> str:
        """Each kind of client is made once; they call nobody."""
        # Its signing needs AWS's own package, which the image has.
        settings.kafka.options.msk_iam_region = None
        try:
            options = dataclasses.replace(engine_options(settings), bootstrap="127.0.0.1:1")
        except HalfHitchError as error:
            return str(error)
        kinds = (options.producer_options, options.consumer_options, options.admin_options)
        told = repr((kinds, options.transaction_timeout_ms, options.session_timeout_ms))
        told += str(options.message_bytes_max)
        if told not in self._known:
            self._known[told] = _tried_out(options)
        return self._known[told]


def _files(volume: Object) -> list[str] | None:
    """Names of what a volume brings; None where it brings nothing."""
    if "secret" in volume:
        return ["tls.crt", "tls.key", "ca.crt"]
    if "projected" not in volume:
        return None
    sources = volume["projected"]["sources"] or []
    return [item["path"] for source in sources for item in source["secret"]["items"]]


def _tried_out(options: EngineOptions) -> str:
    logging.getLogger("halfhitch.kafka").setLevel(logging.CRITICAL)
    clients: Any = EngineClients(options, InternalTopics(options.topic_prefix))
    try:
        clients.admin()
        clients.consumer().close()
        clients.member().close()
        clients.record_producer()
        clients.owner_producer("demo-owner-0")
    except (KafkaException, HalfHitchError) as error:
        return str(error)
    return ""


def _revocations(authority: Authority, path: Path) -> Path:
    """A list of the authority's with nobody on it."""
    policy = authority.folder / "door.cnf"
    subprocess.run(
        [
            *("openssl", "ca", "-gencrl", "-crldays", "30", "-config", str(policy)),
            *("-cert", str(authority.certificate), "-keyfile", str(authority.folder / "ca.key")),
            *("-out", str(path)),
        ],
        check=True,
        capture_output=True,
    )
    return path
