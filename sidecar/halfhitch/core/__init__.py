"""The pure heart: what a half partition's transactions are and what must be done about them.

No I/O, no clock, no randomness, standard library only.
"""
