"""The ports over librdkafka, and the internal topics."""
