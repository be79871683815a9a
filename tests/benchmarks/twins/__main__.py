"""`python tests/benchmarks/twins`, or `python -m benchmarks.twins` from `tests`."""

import sys
from pathlib import Path

if not __package__:
    # Run as a folder, Python puts the folder itself on the path: its modules are to be found as
    # parts of the package, and under no other name.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from benchmarks.twins.comparing import main

if __name__ == "__main__":
    sys.exit(main())
