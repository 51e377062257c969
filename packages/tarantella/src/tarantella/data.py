"""`import tarantella.data`: the module of tnt-keras, as `tnt.data` is."""

import sys

from tnt_keras import data

sys.modules[__name__] = data
