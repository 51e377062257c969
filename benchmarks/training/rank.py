"""One rank, or one independent process: trains so many steps whenever the driver asks for it."""

# Started as `rank.py MODULE KIND SOCKET MODEL BATCH_SIZE SIZES...`.

from __future__ import annotations

import importlib
import sys

from benchmarks.keras_models import Sizes
from benchmarks.process_set import serve

WARM_UP_STEPS = 3  # with what is traced, proved and allocated once


def main() -> None:
    module, kind, socket, model, *numbers = sys.argv[1:]
    batch_size, *sizes = map(int, numbers)
    ways = importlib.import_module(f"benchmarks.training.{module}")
    training = ways.open_training(kind, model, Sizes(*sizes), batch_size)
    training.train(WARM_UP_STEPS)
    hello = {"versions": training.versions, "parameters": training.num_parameters}
    serve(socket, hello, lambda request: training.train(request["num_steps"]))


if __name__ == "__main__":
    main()
