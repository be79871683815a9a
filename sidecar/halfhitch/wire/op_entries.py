"""The entries of op records, as msgspec reads and writes them: JSON arrays, checked while read.

A file of its own because mypyc would lose the options in a class's head.
"""

from typing import Annotated

import msgspec

from halfhitch.core.model import (
    COPIED,
    ConflictKind,
    ProducerGroup,
    ResolutionSource,
    TransactionId,
)
from halfhitch.wire.half import INDEX_MAX

_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
#: NewTypes, so that no entry has to be turned into them: each would be a call at run time.
_Group = Annotated[ProducerGroup, msgspec.Meta(min_length=1, max_length=255)]
_Id = Annotated[TransactionId, msgspec.Meta(min_length=1, max_length=255)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=100_000)]
_Covered = Annotated[int, msgspec.Meta(ge=1, le=INDEX_MAX + 1)]
_Ending = Annotated[int, msgspec.Meta(ge=COPIED, le=INDEX_MAX + 1)]
_LogOffset = Annotated[int, msgspec.Meta(ge=0)]


class DecisionEntry(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """One transaction's decision."""

    producer_group: _Group
    transaction_id: _Id
    covered_count: _Covered
    offset_count: _Count
    source: ResolutionSource
    reason: str | None = None


class DoneEntry(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """These halves need nothing more, because their transaction ended so."""

    producer_group: _Group
    transaction_id: _Id
    ending: _Ending
    offset_count: _Count


class ConflictEntry(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Something lost against the winning decision."""

    producer_group: _Group
    transaction_id: _Id
    kind: ConflictKind
    losing_op_offset: _LogOffset
    offset_count: _Count


class NoteEntry(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """What an operator did that is no decision."""

    producer_group: _Group
    transaction_id: _Id
    action: _Text
    operator: str
    reason: str


encode = msgspec.json.Encoder().encode
decode_decisions = msgspec.json.Decoder(list[DecisionEntry]).decode
decode_done = msgspec.json.Decoder(list[DoneEntry]).decode
decode_notes = msgspec.json.Decoder(list[NoteEntry]).decode
decode_conflicts = msgspec.json.Decoder(list[ConflictEntry]).decode
