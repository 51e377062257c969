"""Training with PyTorch: plain, by DistributedDataParallel over Gloo, or by Horovod."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from benchmarks.keras_models import Sizes, make_samples
from benchmarks.training.steady import SteadySteps
from benchmarks.training.torch_models import MODELS


class Training:
    """A model that is trained on one and the same random batch."""

    def __init__(
        self, model: Any, optimizer: Any, samples: tuple[Any, Any], versions: dict[str, str]
    ) -> None:
        self._model = model
        self._optimizer = optimizer
        self._samples = samples
        self._loss = torch.nn.CrossEntropyLoss()
        self.versions = {**versions, "torch": torch.__version__}
        self.num_parameters = sum(parameter.numel() for parameter in model.parameters())

    def train(self, num_steps: int) -> dict[str, float]:
        """What a step costs, in `num_steps` of them after one more. Collective, if distributed."""
        steps = SteadySteps()
        inputs, labels = self._samples
        for _ in range(num_steps + 1):
            self._optimizer.zero_grad()
            loss = self._loss(self._model(inputs), labels)
            loss.backward()
            self._optimizer.step()
            loss.item()
            steps.end_step()
        return steps.per_step()


def open_training(kind: str, name: str, sizes: Sizes, batch_size: int) -> Training:
    """Build a model with random weights. Collective, if distributed."""
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(1)
    model = MODELS[name](sizes)
    inputs, labels = make_samples(name, sizes, batch_size)
    if inputs.ndim == 4:
        inputs = np.ascontiguousarray(inputs.transpose(0, 3, 1, 2))
    samples = torch.from_numpy(inputs), torch.from_numpy(labels).long()
    if kind == "ddp":
        place = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        dist.init_process_group(
            "gloo", os.environ["INIT_METHOD"], rank=place[0], world_size=place[1]
        )
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = _optimizer(name, model)
    if kind == "horovod":
        return _with_horovod(model, optimizer, samples)
    return Training(model, optimizer, samples, {})


def _optimizer(name: str, model: Any) -> Any:
    if name == "transformer":
        return torch.optim.Adam(model.parameters(), 1e-4)
    return torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)


def _with_horovod(model: Any, optimizer: Any, samples: tuple[Any, Any]) -> Training:
    import horovod
    import horovod.torch as hvd

    hvd.init()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    return Training(model, optimizer, samples, {"horovod": horovod.__version__})
