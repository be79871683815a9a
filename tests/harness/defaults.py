"""Limits and options as an installation has them that sets nothing; tests name what they change."""

from dataclasses import replace
from typing import Any, Final

from halfhitch.adapters.kafka.audit_topic import AuditOptions
from halfhitch.composition import engine_options as options_of
from halfhitch.composition import http_limits as limits_of
from halfhitch.composition import rocketmq_limits as rocketmq_limits_of
from halfhitch.config import Settings
from halfhitch.core.check_rules import CheckRules
from halfhitch.doors.http.limits import Limits
from halfhitch.doors.rocketmq import Limits as RocketmqLimits
from halfhitch.engine import EngineOptions
from halfhitch.service.checking.limits import DeskLimits
from halfhitch.service.owner.turn import OwnerLimits
from halfhitch.service.transactions.bounds import IntakeLimits

_SETTINGS: Final = Settings()
_OPTIONS: Final = options_of(_SETTINGS)


def engine_options(**changes: Any) -> EngineOptions:
    """Of an engine whose Kafka may have one broker."""
    one_copy = {"replication_factor": 1, "audit": AuditOptions(168, 1)}
    return replace(_OPTIONS, **{**one_copy, **changes})


def check_rules(**changes: Any) -> CheckRules:
    """The settings `checks`."""
    return replace(_OPTIONS.owner_limits.check_rules, **changes)


def owner_limits(**changes: Any) -> OwnerLimits:
    """The settings `owner` and `ledger`."""
    return replace(_OPTIONS.owner_limits, **changes)


def intake_limits(**changes: Any) -> IntakeLimits:
    """The settings `limits`."""
    return replace(_OPTIONS.intake_limits, **changes)


def desk_limits(**changes: Any) -> DeskLimits:
    """The settings `checks` at one instance."""
    return replace(_OPTIONS.desk_limits, **changes)


def http_limits(**changes: Any) -> Limits:
    """The settings `http` and `messages`; a stop waits for no end unless a test wants it to."""
    return replace(limits_of(_SETTINGS), **{"unended_s": 0.01, **changes})


def rocketmq_limits(**changes: Any) -> RocketmqLimits:
    """The settings `rocketmq` and `messages`."""
    return replace(rocketmq_limits_of(_SETTINGS), **changes)
