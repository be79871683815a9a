"""The command line; app.py is where it begins, demo/ is the order service with its books."""
