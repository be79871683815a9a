"""The two ways in which what a remoting client sent can be wrong."""

from halfhitch.errors import InvalidRequest
from halfhitch.wire.remoting.faults import FrameError, RemotingError


def test_one_request_is_refused_with_a_code_and_the_stream_goes_on() -> None:
    error = RemotingError(17, "no such topic")
    assert (error.response_code, error.remark, str(error)) == (17, "no such topic", "no such topic")
    assert isinstance(error, InvalidRequest)
    assert not isinstance(error, FrameError)


def test_the_two_are_told_apart_by_their_codes() -> None:
    codes = {FrameError("x").code, RemotingError(1, "x").code, InvalidRequest("x").code}
    assert len(codes) == 3
