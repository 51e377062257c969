"""`import tarantella.callbacks`: the module of tnt-keras, as `tnt.callbacks` is."""

import sys

from tnt_keras import callbacks

sys.modules[__name__] = callbacks
