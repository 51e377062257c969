"""`import tarantella.comm`: tnt-comm, as `tnt.comm` is."""

import sys

import tnt_comm

sys.modules[__name__] = tnt_comm
