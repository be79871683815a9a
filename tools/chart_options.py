"""Writes what the charts' templates know of options of Kafka's client, and of numbers to compare.

    python tools/chart_options.py        writes both charts' _options.tpl (`make format` does)

Which options are secrets or files, and what values the client takes, comes from the program's own
tables, and so do the defaults of settings that have rules between them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from halfhitch.config import SETTINGS
from halfhitch.config.kafka_options import FILES, HIDDEN
from halfhitch.config.kafka_values import NUMBERS, WORDS

_CHARTS: Final = Path(__file__).resolve().parents[1] / "deploy" / "helm"
PLACES: Final = tuple(
    _CHARTS / name / "templates" / "_options.tpl" for name in ("halfhitch", "halfhitch-sidecar")
)

_HEAD: Final = """\
{{/*
Options of Kafka's client that are secrets or files, and where they belong; the words, or least and
most, that others may be; and numbers that are compared, with their defaults. Made by
tools/chart_options.py.
*/}}
"""
#: Of the rest no chart has a file: what they open is a key with a password.
_BELONGS: Final[Mapping[str, str]] = {
    "sasl.password": "secrets.kafkaPassword",
    "sasl.oauthbearer.client.secret": "secrets.kafkaOauthClientSecret",
    "ssl.key.pem": "secrets.kafkaKey",
    "ssl.ca.location": "secrets.kafkaCa",
    "ssl.certificate.location": "secrets.kafkaCertificate",
    "ssl.certificate.pem": "secrets.kafkaCertificate, which brings the key along",
    "ssl.key.location": "secrets.kafkaKey",
    "ssl.crl.location": "secrets.kafkaCrl",
    "ssl.keystore.location": "secrets.kafkaCertificate and secrets.kafkaKey, in PEM",
    "https.ca.location": "secrets.kafkaOauthCa",
    "sasl.kerberos.keytab": "another sasl.mechanism, for Kerberos has files that no chart mounts",
}
#: Those that rules between settings look at (config/rules.py).
_COMPARED: Final = (
    *("messages.bytes_max", "messages.transaction_bytes_max"),
    *("owner.batch_bytes_max", "owner.payload_cache_bytes"),
    *("owner.transaction_timeout_ms", "owner.hung_call_s", "ledger.horizon_s"),
    *("limits.undecided_max", "limits.undecided_group_max"),
)


def options_text() -> str:
    """The templates."""
    other = "secrets.kafkaKey, of a key without a password"
    names = sorted({*HIDDEN, *FILES, *_BELONGS})
    values = {name: list(of) for name, of in sorted({**WORDS, **NUMBERS}.items())}
    parts = {
        "secretOptions": [f"{name}: {_BELONGS.get(name, other)}" for name in names],
        "optionValues": [f"{name}: {json.dumps(of)}" for name, of in values.items()],
        "defaults": [f"{row.key}: {row.default}" for row in SETTINGS if row.key in _COMPARED],
    }
    defines = (
        "\n".join((f'{{{{- define "halfhitch.{name}" -}}}}', *lines, "{{- end }}\n"))
        for name, lines in parts.items()
    )
    return _HEAD + "\n".join(defines)


def main() -> int:
    """Write those that differ."""
    for path in PLACES:
        if not path.is_file() or path.read_text() != options_text():
            path.write_text(options_text())
            print(f"{path} is new")  # noqa: T201 - the command's own answer
    return 0


if __name__ == "__main__":
    sys.exit(main())
