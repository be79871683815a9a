"""The admin door: probes, metrics and what the command line asks a running sidecar."""

from halfhitch.doors.admin.door import AdminDoor

__all__ = ["AdminDoor"]
