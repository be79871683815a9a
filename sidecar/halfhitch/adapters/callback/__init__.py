"""Checks by callback: one POST to a configured address per check, answered in the response."""

from halfhitch.adapters.callback.links import CallbackLinks
from halfhitch.adapters.callback.target import Target

__all__ = ["CallbackLinks", "Target"]
