"""The transaction service and the owners of half partitions: no Kafka, no HTTP."""
