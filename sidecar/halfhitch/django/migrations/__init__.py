"""Migrations of the barrier's table."""
