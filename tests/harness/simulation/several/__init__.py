"""Several instances in simulated time: real members, workers and owners over a played Kafka.

What is real: GroupMembership, Ownership, PartitionWorker, PartitionOwner with all below it, and the
codecs. What is played: brokers (logs, transaction and group coordinators), the network, what the
real writer decides (ports.py), producers, Redis. Each thread of an instance is a task that gives
control away at every call to the outside, so that anything may happen there. A seed says it all.
"""
