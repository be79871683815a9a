"""The ports made real: `kafka` over librdkafka, `memory` for tests, the system's clock."""
