"""Who asks, and what they may do: one model for every door.

`rights.py` has the rights and the caller that doors ask, `identities.py` what an identity is,
`allowance.py` how much it may ask, `reading.py` the text of the file, `register.py` who is known
now. Pure: no I/O, no clock.
"""

from halfhitch.access.allowance import Allowance
from halfhitch.access.identities import Identity, token_hash
from halfhitch.access.register import ACCESS_KEY, Access, Grant, Numbers
from halfhitch.access.rights import EVERYBODY, Caller, Right

__all__ = [
    "ACCESS_KEY",
    "EVERYBODY",
    "Access",
    "Allowance",
    "Caller",
    "Grant",
    "Identity",
    "Numbers",
    "Right",
    "token_hash",
]
