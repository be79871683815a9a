"""Passwords in the options of a source stay out of what Spark shows.

Spark hides values of options whose names look secret, but not where it prints the older form of
the Kafka source beside the newer one: `explain` of a stream shows them there, and so do the plans
of its page and its event log. A pattern of the session hides what stands behind such a name.
"""

import re
from collections.abc import Iterable
from typing import Final

from pyspark.sql import SparkSession

SETTING: Final = "spark.sql.redaction.string.regex"
_SECRET: Final = re.compile(r"(?i)password|secret|token|access[.]?key|jaas|ssl\.keystore\.key")
#: How Scala prints a source: `DataSource(...,HashMap(name -> value, other -> value),None)`. Where
#: no end of a value is seen, all that follows is hidden. Java's, which bounds what it looks back
#: for.
VALUES: Final = (
    r"(?is)(?<=(?:password|secret|token|access\.?key|jaas|keystore\.key)[.a-z]{0,40} -> )"
    r".*?(?=, [\w.-]{1,80} -> |\),(?:None|Some\()|$)"
)


def hide_secrets(spark: SparkSession, names: Iterable[str]) -> None:
    """Before a source gets options of these names. A pattern of the user's own stays."""
    if any(_SECRET.search(name) for name in names) and not spark.conf.get(SETTING, None):
        spark.conf.set(SETTING, VALUES)
