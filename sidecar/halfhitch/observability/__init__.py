"""What is shown to people and machines: every metric, the forms of the log."""
