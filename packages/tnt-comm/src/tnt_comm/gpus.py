"""Which GPUs this process can sum tensors of."""

from typing import Any

from tnt_comm import _core
from tnt_comm.arrays import as_integer


def gpu_obstacle(gpu: int = 0, *, is_stream_known: bool = True) -> str:
    """Return why tensors of a GPU cannot be summed there, as a sentence; "" if they can. Local.

    Opens CUDA's driver at the first call, and keeps the GPU's primary context.

    Args:
        gpu: Which of the GPUs that this process sees.
        is_stream_known: Whether calls of `GradientReducer` will name streams. If not, the driver
            must be that of CUDA 12.5 or later.

    Raises:
        TypeError: If `gpu` is not an integer.
        ValueError: If it is negative.
    """
    gpu = as_integer(gpu, "`gpu`", num_bits=32)
    if gpu < 0:
        raise ValueError(f"`gpu` must be >= 0. Received: gpu={gpu}.")
    return _core.obstacle_of_device(gpu, is_stream_known)


def describe_devices() -> dict[str, Any]:
    """Return which GPUs this process sees, and what would sum tensors of theirs. Local.

    Opens CUDA's driver, but uses no GPU.

    Returns:
        A dictionary of plain values: `is_available`, and the `reason` if there is no GPU;
        `driver_version`, which is 13000 for CUDA 13.0; `devices`, a list of dictionaries with
        `name`, `pci`, `uuid` and `total_bytes`; `can_access_peer[i][j]`, whether GPU i reaches the
        memory of GPU j; `engine`, which is "ipc" if the GPUs of this host would sum, "host" if its
        CPUs would, and "none" without a GPU, or if `TNT_GPU_SUMS` asks for what cannot be had; and
        `why` that, as a sentence.

    Raises:
        ValueError: A variable is malformed, such as `TNT_GPU_SUMS`.
    """
    return _core.describe_devices()
