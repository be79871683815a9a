"""The coordinator's behaviours, without Kafka and without HTTP: one folder for each.

`api.py` is what doors call.
"""
