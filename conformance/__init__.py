"""Half Hitch and the real RocketMQ, seen through RocketMQ's own Java client."""
