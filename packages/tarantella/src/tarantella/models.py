"""`import tarantella.models`: the module of tnt-keras, as `tnt.models` is."""

import sys

from tnt_keras import models

sys.modules[__name__] = models
