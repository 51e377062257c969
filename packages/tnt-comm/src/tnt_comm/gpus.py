"""Which GPUs this process can sum tensors of."""

from tnt_comm import _core


def gpu_obstacle(gpu: int = 0, *, is_stream_known: bool = True) -> str:
    """Return why tensors of a GPU cannot be summed there, as a sentence; "" if they can. Local.

    Opens CUDA's driver at the first call, and keeps the GPU's primary context.

    Args:
        gpu: Which of the GPUs that this process sees.
        is_stream_known: Whether calls of `GradientReducer` will name streams. If not, the driver
            must be that of CUDA 12.5 or later.
    """
    return _core.obstacle_of_device(gpu, is_stream_known)
