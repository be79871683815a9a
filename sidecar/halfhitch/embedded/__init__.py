"""Real servers for development, the demo and the tests: Kafka and Redis as child processes.

    from halfhitch.embedded import EmbeddedKafka, EmbeddedRedis

    with EmbeddedKafka() as kafka, EmbeddedRedis() as redis:
        producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap})
        client = Redis.from_url(redis.url)

Kafka's jars come from a committed list with sha256 sums and are fetched once per machine; Java and
Redis are the machine's, or those in the packages that the extra `embedded` brings. Whatever happens
to the process that started them, the servers do not outlive it by more than some seconds.

Nothing else in Half Hitch depends on this package, and it depends on nothing but the
errors and the table of extras.
"""

from halfhitch.embedded.errors import EmbeddedError, EmbeddedExtraMissing
from halfhitch.embedded.jars import (
    FetchProgress,
    cache_root,
    fetch_locked,
    kafka_jars,
    spark_avro_jars,
    spark_connector_jars,
    spark_lake_jars,
)
from halfhitch.embedded.java import find_java, spark_java_home
from halfhitch.embedded.kafka import EmbeddedKafka, ProxyRoute
from halfhitch.embedded.processes import ServerProcess, unwind_on_sigterm
from halfhitch.embedded.redis import EmbeddedRedis

__all__ = [
    "EmbeddedError",
    "EmbeddedExtraMissing",
    "EmbeddedKafka",
    "EmbeddedRedis",
    "FetchProgress",
    "ProxyRoute",
    "ServerProcess",
    "cache_root",
    "fetch_locked",
    "find_java",
    "kafka_jars",
    "spark_avro_jars",
    "spark_connector_jars",
    "spark_java_home",
    "spark_lake_jars",
    "unwind_on_sigterm",
]
