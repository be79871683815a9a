"""One module for each command, imported only when it is asked for (see lazy.py)."""
