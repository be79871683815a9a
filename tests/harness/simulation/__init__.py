"""One half partition's whole life in simulated time: the real owner, ledger and codecs, one thread.

Everything around them is played: Kafka (the memory adapter with clocks and faults), producers and
their databases, the desk, Redis, operators. A seed says everything: the same seed, the same life.
"""
