"""`tnt.should_stop()`: what `fit` does by itself when a scheduler asks for the end, for loops."""

from __future__ import annotations

import numpy as np

from tnt_keras.calls.collective_call import collective_call
from tnt_keras.calls.messages import allreduce
from tnt_keras.process import training_requests
from tnt_keras.process.rank import get_size


@collective_call("should_stop")
def should_stop() -> bool:
    """Return whether a scheduler has asked a rank to end, by SIGTERM, SIGUSR1 or SIGUSR2.

    Collective, and a message of its own: ask after a step, or after some. From the first call on
    these signals do not end the process any more, for the time of `--grace`, unless the script has
    handlers of its own. For example::

        for batch in data:
            train_step(batch)
            if tnt.should_stop():
                checkpoint.save("checkpoint")
                sys.exit(75)  # which tells the launcher that the job is to be run again

    `fit` needs no such call: it saves and leaves by itself.

    Returns:
        True on all ranks from the first call on before which a signal had come to one of them.

    Raises:
        tnt_comm.CommError: If another rank is lost, late, or in another call.
    """
    training_requests.listen()
    own = np.array(training_requests.own_requests()[:1], np.uint8)
    if get_size() > 1:
        own = allreduce("signal", own, "max")
    return bool(own[0])
