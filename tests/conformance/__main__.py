"""`python tests/conformance`, or `python -m conformance` with `tests` on the path."""

import sys
from pathlib import Path

if not __package__:
    # Run as a folder, Python puts the folder itself on the path: its modules are to be found as
    # parts of the package, and under no other name.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from conformance.whole import main

if __name__ == "__main__":
    sys.exit(main())
