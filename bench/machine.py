"""Where and with what a benchmark ran: without it no figure means anything."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from pathlib import Path

import confluent_kafka

from halfhitch import __version__
from halfhitch.embedded import find_java, kafka_jars


def facts() -> dict[str, str | int | float]:
    """Machine and versions."""
    return {
        "cores": os.cpu_count() or 0,
        "processor": _processor(),
        "memory_mib": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "halfhitch": __version__,
        "confluent_kafka": _version("confluent-kafka"),
        "librdkafka": confluent_kafka.libversion()[0],
        "uvloop": _version("uvloop"),
        "httptools": _version("httptools"),
        "java": find_java().full_version,
        "kafka": _kafka_version(),
        "load_average": os.getloadavg()[0],
    }


def _processor() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.machine()


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _kafka_version() -> str:
    for jar in kafka_jars():
        found = re.fullmatch(r"kafka_[\d.]+-([\d.]+)\.jar", jar.name)
        if found:
            return found[1]
    return "unknown"
