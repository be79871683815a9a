"""Bytes to values and back: half records, op records, parked records, handles. Pure."""
