"""Records that clients of Python cannot write: the name of a header is bytes, not always text."""

import subprocess

_DEADLINE_S = 60


def produce_odd(bootstrap: str, topic: str, value: bytes, header: bytes) -> None:
    """By kcat; `header` is `name=value`."""
    command = ["kcat", "-q", "-P", "-b", bootstrap, "-t", topic, "-H", header]
    subprocess.run(command, input=value, check=True, timeout=_DEADLINE_S)
