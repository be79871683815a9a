"""The HTTP data door: prepare, add, commit, roll back and look up transactions over HTTP/1.1."""

from halfhitch.doors.http.limits import Limits
from halfhitch.doors.http.protocol import OnRequest
from halfhitch.doors.http.server import HttpDoor

__all__ = ["HttpDoor", "Limits", "OnRequest"]
