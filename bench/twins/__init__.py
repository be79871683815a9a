"""Interpreted against compiled, in one process and in turns: `make bench-compiled`.

Both trees are imported under the same names, one after the other, and each keeps its own modules.
What is measured is processor time of one thread, without collecting garbage; what the machine does
to one tree it does to the other.
"""
