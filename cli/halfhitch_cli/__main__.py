"""python -m halfhitch_cli"""

import sys

from halfhitch_cli.app import main

if __name__ == "__main__":
    sys.exit(main())
