"""Helpers shared by tests: talking to real servers, waiting for conditions with a deadline."""
