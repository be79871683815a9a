"""What any instance does with a transaction: prepare, add, end, say what became of it."""
