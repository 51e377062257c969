"""`python -m tnt_comm.timeline PATH`: join the parts that a job has left."""

import argparse
import sys

from tnt_comm.errors import CommError
from tnt_comm.timeline import merge


def main() -> int:
    """Join the parts; exit status 1 and a sentence if that cannot be done."""
    parser = argparse.ArgumentParser(
        prog="python -m tnt_comm.timeline",
        description="Join the parts PATH.rank0, PATH.rank1, ... of a timeline that a job has left.",
    )
    parser.add_argument("path", help="the value that TNT_TIMELINE had")
    try:
        merge(parser.parse_args().path)
    except (ValueError, CommError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
