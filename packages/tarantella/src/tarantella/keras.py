"""`import tarantella.keras.callbacks` and the like: modules of tnt-keras, as in `tnt.keras`."""

import sys

from tnt_keras import callbacks, keras, models

sys.modules[__name__] = keras
sys.modules[f"{__name__}.callbacks"] = callbacks
sys.modules[f"{__name__}.models"] = models
