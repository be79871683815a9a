"""`python bench/curves`, or `python -m bench.curves` with `tests` on the path too."""

import sys
from pathlib import Path

if not __package__:
    # Run as a folder, Python puts the folder itself on the path: its modules are to be found as
    # parts of the package, and under no other name.
    root = Path(__file__).resolve().parents[2]
    sys.path[:1] = [str(root), str(root / "tests")]

from bench.curves.director import main

if __name__ == "__main__":
    sys.exit(main())
