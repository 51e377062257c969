"""Make `python -m tnt_launch` the same as `tarantella`."""

import sys

from tnt_launch.cli import main

if __name__ == "__main__":
    sys.exit(main())
