"""The two ways in which what a remoting client sent can be wrong.

Nothing else leaves this package because of bytes from outside.
"""

from halfhitch.errors import InvalidRequest


class FrameError(InvalidRequest):
    """The stream cannot be read any further: close the connection."""

    code = "invalid_frame"


class RemotingError(InvalidRequest):
    """One request cannot be served: answer it with `response_code` and the message as its remark.

    The connection is fine, the next request may be read.
    """

    code = "invalid_remoting_request"

    def __init__(self, response_code: int, remark: str) -> None:
        super().__init__(remark)
        self.response_code = response_code

    @property
    def remark(self) -> str:
        return self.message
