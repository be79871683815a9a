"""Request 37: how a transaction ends, said by its producer on its own or when it was asked.

Nothing is judged here but the form: whether the offsets agree, or what 0 means, is the door's.
"""

from operator import itemgetter
from struct import Struct
from typing import Final

from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.fields import int32, int64, invalid, optional_text, text, yes
from halfhitch.wire.remoting.requests import End, Frame
from halfhitch.wire.remoting.shapes import LIKE_MAX, PIECE_BYTES_MAX, EndShape, Shapes, keep, spans

#: What `commit_or_rollback` may be.
UNKNOWN: Final = codes.TRANSACTION_NOT
COMMIT: Final = codes.TRANSACTION_COMMIT
ROLLBACK: Final = codes.TRANSACTION_ROLLBACK


def read_end(frame: Frame) -> End:
    """A request with code 37. RemotingError when a field is missing or malformed."""
    shapes = frame.shapes
    if shapes is None:
        return _read_any(frame)
    end = _read_known(frame.raw_fields, shapes)
    if end is None:
        end = _read_any(frame)
        _learn(frame.raw_fields, end, shapes)
    return end


def _read_known(raw: bytes, shapes: Shapes) -> End | None:
    """By the shapes of earlier requests; None when this one is unlike them."""
    for cut, fixed, pick, meaning in shapes.ends.get(len(raw), ()):
        pieces = cut(raw)
        if pieces[::2] != fixed:
            continue
        state, place, decided, message, transaction, topic = pick(pieces)
        decision = _DECISIONS.get(decided)
        if decision is None or not state.isdigit() or not place.isdigit():
            return None
        try:
            message_id = message.decode()
            producer_group, from_check, broker_name, namespace = meaning
            return End(
                producer_group, decision, from_check, int(state), int(place), message_id,
                (message_id if transaction == message else transaction.decode()) or None,
                topic.decode() or None, broker_name, namespace,
            )  # fmt: skip
        except UnicodeDecodeError:
            return None
    return None


_DECISIONS: Final = {b"0": UNKNOWN, b"8": COMMIT, b"12": ROLLBACK}
#: In the order in which `_read_known` takes them; the last two may be missing.
_CHANGING: Final = (
    b"tranStateTableOffset",
    b"commitLogOffset",
    b"commitOrRollback",
    b"msgId",
    b"transactionId",
    b"topic",
)
_NEEDED_COUNT: Final = 4
_FIXED: Final = frozenset((b"producerGroup", b"bname", b"fromTransactionCheck", b"ns", b"nsd"))
_KNOWN: Final = _FIXED.union(_CHANGING)
_NUMBERS: Final = (b"tranStateTableOffset", b"commitLogOffset")
_DIGITS_MAX: Final = 18  # a number of so many fits 64 bits for sure


def _learn(raw: bytes, end: End, shapes: Shapes) -> None:
    """Keep the shape of a header that was read in full, if it is of the usual kind."""
    fields = spans(raw)
    names = [field.name for field in fields]
    if (
        len(raw) > PIECE_BYTES_MAX
        or not _KNOWN.issuperset(names)
        or any(name not in names for name in _CHANGING[:_NEEDED_COUNT])
    ):
        return
    lengths: list[int] = []  # of fixed and changing pieces, in turn
    places: dict[bytes, int] = {}
    fixed_at = 0
    for field in fields:
        if field.name in _CHANGING:
            places[field.name] = len(lengths) + 1
            lengths += (field.value_at - fixed_at, field.end - field.value_at)
            fixed_at = field.end
    lengths.append(len(raw) - fixed_at)
    if max(lengths[places[name]] for name in _NUMBERS) > _DIGITS_MAX:
        return
    for name in _CHANGING[_NEEDED_COUNT:]:
        if name not in places:  # read as empty, which means the same
            places[name] = len(lengths)
            lengths += (0, 0)
    cut = Struct("".join([f"{length}s" for length in lengths])).unpack
    shape = EndShape(
        cut,
        cut(raw)[::2],
        itemgetter(*[places[name] for name in _CHANGING]),
        (end.producer_group, end.from_check, end.broker_name, end.namespace),
    )
    like = shapes.ends.get(len(raw), [])
    keep(shapes.ends, len(raw), [shape, *like][:LIKE_MAX])


def _read_any(frame: Frame) -> End:
    fields = frame.fields
    decision = int32(fields, "commitOrRollback")
    if decision not in (UNKNOWN, COMMIT, ROLLBACK):
        raise invalid(f"commitOrRollback is {decision}: 8 commits, 12 rolls back, 0 does not know")
    return End(
        producer_group=text(fields, "producerGroup"),
        commit_or_rollback=decision,
        from_check=yes(fields, "fromTransactionCheck"),
        state_offset=int64(fields, "tranStateTableOffset"),
        commit_log_offset=int64(fields, "commitLogOffset"),
        message_id=fields.get("msgId", ""),
        transaction_id=optional_text(fields, "transactionId"),
        topic=optional_text(fields, "topic"),
        broker_name=optional_text(fields, "bname"),
        namespace=optional_text(fields, "ns") if yes(fields, "nsd") else None,
    )
