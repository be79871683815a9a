"""What people do with transactions: look, decide, check, resume."""
