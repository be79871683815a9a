"""RocketMQ's own benchmark against RocketMQ and against Half Hitch: `make bench-rocketmq`.

The load is `org.apache.rocketmq.example.benchmark.TransactionProducer` as it is published, once
pointed at RocketMQ's name server and once at Half Hitch. It prints what it has measured; nothing
here measures in its place. What is added: processor time and memory of every process, and for Half
Hitch an account of what became visible in Kafka.

Not collected by pytest. Nothing here is imported by the product.
"""
