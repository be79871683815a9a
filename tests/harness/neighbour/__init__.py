"""A hostile neighbour: a second application on the same coordinator, with a token of its own.

`street` starts the coordinator, `victim` is the first application, and judges what becomes of its
messages. The attacker lives in a process of its own (`attacker`), and goes through the tables of
attacks, one after the other: `reading` (and ending), `taking` (replacing and squatting),
`exhausting`, `stalling`. It knows all that the victim knows but its token and its keys.

The attacker keeps to a pace, for nothing bounds how many requests a second an identity may send:
how much of the machine a flood takes is said by the machine, not by the coordinator.
"""
