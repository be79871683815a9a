"""Settings: one frozen object, read once at the start and never changed while running.

`load` is the only way in: flag, then environment, then file, then default, checked as a whole.
Nothing but the composition and the command line sees `Settings`; everything else gets plain values.
"""

from halfhitch.config.kafka_options import KafkaOptions
from halfhitch.config.load import Purpose, load
from halfhitch.config.secret import Secret
from halfhitch.config.settings import (
    SETTINGS,
    AdminSettings,
    AuthSettings,
    DrainSettings,
    HandleSettings,
    HttpSettings,
    InstanceSettings,
    KafkaSettings,
    LedgerSettings,
    LogSettings,
    OwnerSettings,
    RedisSettings,
    Setting,
    Settings,
    SettingValue,
    TopicsSettings,
    VisibleSettings,
)

__all__ = [
    "SETTINGS",
    "AdminSettings",
    "AuthSettings",
    "DrainSettings",
    "HandleSettings",
    "HttpSettings",
    "InstanceSettings",
    "KafkaOptions",
    "KafkaSettings",
    "LedgerSettings",
    "LogSettings",
    "OwnerSettings",
    "Purpose",
    "RedisSettings",
    "Secret",
    "Setting",
    "SettingValue",
    "Settings",
    "TopicsSettings",
    "VisibleSettings",
    "load",
]
