"""What the coordinator costs, beside raw Kafka in the same run: `make bench`.

Not collected by pytest. Processes: the director (`director.py`), which starts all others; the
broker; the sidecar; one load; one watcher, a read_committed consumer of the target topic that says
when each message became visible. The director never takes part in the load.

Nothing here is imported by the product.
"""
