"""Sums of the same tensors over all ranks, step after step."""

import weakref

import numpy as np
import numpy.typing as npt

from tnt_comm import _core
from tnt_comm.arrays import (
    Array,
    as_input,
    as_integer,
    as_number,
    as_output,
    as_text,
    dtype_name,
    timeout_or_default,
    without_partial_overlap,
)
from tnt_comm.fusion_plan import FusionPlan, TensorSpec
from tnt_comm.group import Group


class GradientReducer:
    """Sum a fixed list of tensors over the ranks of a group in every step.

    In each step every tensor is started once and finished once, in any order
    and from any threads. A bucket is reduced in the background as soon as all
    its tensors were started. Ranks may start tensors in different orders.

    Collective: every member of the group must create it, with an equal plan.

    Args:
        plan: Which tensors there are and how they are fused.
        group: All ranks by default.
        name: For messages; must be equal on all ranks.
        phase: Names, for the timeline, what the program does between the first
            start and the last one of each step, such as "backpropagation".
        gpu: Which of the GPUs that this process sees the tensors are on; -1 if it has none that
            can be used, although it or another rank computes on one. To be given on all ranks or
            on none; by default all tensors are in the memory of hosts. `TNT_GPU_SUMS` says what
            sums those of GPUs.

    Raises:
        TypeError: If `name` or `phase` is not a string, or `gpu` not an integer.
        ValueError: If `gpu` is less than -1.
        MismatchError: On all members, if the plans differ; names the first
            tensor that does, with both ranks' values. Also if only some give `gpu`.
        CommError: If a rank cannot create its part, for example for lack of shared memory; the
            group can still be used. Also if the GPU cannot be used.

    Example:
        >>> plan = FusionPlan([TensorSpec("kernel", "float32", 3)], 32768)
        >>> reducer = GradientReducer(plan)
        >>> reducer.start(0, np.ones(3, np.float32), scale=0.5)
        >>> reducer.finish(0)
        array([0.5, 0.5, 0.5], dtype=float32)
    """

    def __init__(
        self,
        plan: FusionPlan,
        group: Group | None = None,
        name: str = "gradients",
        phase: str = "",
        gpu: int | None = None,
    ) -> None:
        self._plan = plan
        self._group = group if group is not None else Group()
        self._name = as_text(name, "`name`")
        self._outs: dict[int, Array] = {}  # of tensors that are started and not finished
        self._shapes: list[tuple[int, ...]] = [(t.num_elements,) for t in plan.tensors]
        phase = as_text(phase, "`phase`")
        core, name = self._group.core, self._name
        if gpu is None:
            self._handle = _core.create_reducer(core, plan.core, name, phase)
        else:
            self._handle = _core.create_device_reducer(core, plan.core, name, phase, _as_gpu(gpu))
        self._free = weakref.finalize(self, _core.close_reducer, self._handle)
        self._free.atexit = False

    @property
    def handle(self) -> int:
        """Number of this object in the C interface (`tnt_reducer_start`...)."""
        return self._handle

    @property
    def plan(self) -> FusionPlan:
        """The plan it was created with."""
        return self._plan

    @property
    def is_on_gpu(self) -> bool:
        """Whether its buckets are in the memory of a GPU of this rank."""
        return _core.is_on_device(self._handle)

    @property
    def gpu_sums(self) -> tuple[str, str]:
        """What sums tensors of GPUs, and why, as two texts.

        The first is "host" for the CPUs of the hosts, "ipc" for the GPUs of one host, or "none"
        for a reducer that was made without `gpu`.
        """
        return _core.device_engine(self._handle)

    def start_on_gpu(self, i: int, data: int, scale: float = 1.0, *, stream: int = 0) -> None:
        """Start the sum of `scale * data`, which is on the GPU. Local.

        Waits neither for other ranks nor for the GPU: `data` is read in the order of the stream.

        Args:
            i: Index of the tensor in the plan.
            data: Address on the GPU, of as many elements of the plan's dtype as the plan says.
            scale: Factor, as of `start`.
            stream: The `CUstream` (`cudaStream_t`) in which `data` is computed. 0 stands for all
                streams of the GPU's primary context, which needs a driver of CUDA 12.5 or later.

        Raises:
            TypeError: If an argument is not a number, or not an integer where that is needed.
            IndexError: If there is no such tensor.
            ValueError: If the reducer has no GPU, the tensor was started and not finished, or an
                argument is out of its range.
            CommError: If the driver reports an error; the group is then broken.
        """
        self._spec(i)
        data, stream = _as_address(data, "`data`"), _as_address(stream, "`stream`")
        _core.start_device_tensor(self._handle, i, data, as_number(scale, "`scale`"), stream)

    def finish_on_gpu(
        self, i: int, out: int, *, stream: int = 0, timeout_s: float | None = None
    ) -> None:
        """Wait for the other ranks, and let the stream copy the tensor's sum. Collective.

        The sum is there for what comes into the stream later.

        Args:
            i: Index of the tensor in the plan.
            out: Address on the GPU, of memory that is used in the order of the stream.
            stream: As of `start_on_gpu`: who reads the sum.
            timeout_s: Longest wait in seconds, by default `TNT_TIMEOUT_S`.

        Raises:
            As `finish`, and `CommError` if the driver reports an error.
        """
        self._spec(i)
        out, stream = _as_address(out, "`out`"), _as_address(stream, "`stream`")
        _core.finish_device_tensor(self._handle, i, out, stream, timeout_or_default(timeout_s))

    def start(
        self, i: int, array: npt.ArrayLike, scale: float = 1.0, *, out: Array | None = None
    ) -> None:
        """Start the sum of `scale * array` over the ranks.

        Local: never waits for other ranks. Without `out`, the values are copied
        into the tensor's bucket, and `array` may be changed afterwards.

        With `out`, the sum is written there, and until `finish` both arrays must
        not be used. `out` may be `array` itself. Large tensors then are summed
        where they are, without any copy, if all ranks are on one host; this is
        the fastest way.

        Args:
            i: Index of the tensor in the plan.
            array: Values of any shape, of the plan's dtype and size.
            scale: Factor; 0 contributes zeros even where `array` holds NaN or
                infinity. For integers and bool only 0 and 1.
            out: Where to put the sum, C-contiguous, of the shape and dtype of
                `array`.

        Raises:
            IndexError: If there is no such tensor.
            ValueError: If dtype, size or scale are wrong, `out` does not fit, or
                the tensor was started already and not finished.
        """
        spec = self._spec(i)
        scale = as_number(scale, "`scale`")
        source = as_input(array)
        if dtype_name(source.dtype) != spec.dtype or source.size != spec.num_elements:
            raise ValueError(
                f"Tensor {i} ('{spec.name}') of GradientReducer '{self._name}' has dtype "
                f"{spec.dtype} and {spec.num_elements} elements. "
                f"Received: dtype={source.dtype}, {source.size} elements."
            )
        if out is None:
            _core.start_tensor(self._handle, i, source, scale)
        else:
            target = as_output(out, source.shape, source.dtype)
            source = without_partial_overlap(source, target)
            _core.start_tensor_into(self._handle, i, source, target, scale)
            self._outs[i] = target
        self._shapes[i] = source.shape

    def finish(self, i: int, out: Array | None = None, timeout_s: float | None = None) -> Array:
        """Wait for the tensor's sum over the ranks. Collective.

        Blocks until every rank has started all tensors of the bucket.

        If `start` was given an `out`, the sum is there. Otherwise, and without
        `out` here, a large tensor is not copied: the array returned lies where
        the sum was formed. It is an ordinary array, yours to keep and
        change; as long as it lives, its memory is not used for later steps,
        and later sums of tensors in the same bucket are copied. So drop it
        before the next step's `finish` to save those copies.

        Args:
            i: Index of the tensor in the plan.
            out: Where to put the sum, C-contiguous, of the plan's dtype and
                size; by default an array of the shape given to `start`. Not if
                `start` was given one.
            timeout_s: Longest wait in seconds, by default `TNT_TIMEOUT_S`.

        Returns:
            The sum, bitwise equal on all ranks; the `out` that was given.

        Raises:
            IndexError: If there is no such tensor.
            ValueError: If the tensor was not started, or `out` does not fit or was
                given to `start` already.
            CommTimeoutError: If the wait takes too long; the group is then broken.
            PeerLostError: If a member of the group has ended.
        """
        spec = self._spec(i)
        limit_s = timeout_or_default(timeout_s)
        if i in self._outs:
            return self._finish_into(i, out, limit_s)
        shape = self._shapes[i]
        if out is not None and out.size == spec.num_elements:
            shape = out.shape
        if out is None:
            lent = _core.lend_tensor(self._handle, i, np.dtype(spec.dtype), shape, limit_s)
            if lent is not None:
                return lent
        target = as_output(out, shape, np.dtype(spec.dtype))
        _core.finish_tensor(self._handle, i, target, limit_s)
        return target

    def _finish_into(self, i: int, out: Array | None, limit_s: float) -> Array:
        target = self._outs[i]
        if out is not None:
            raise ValueError(
                f"Tensor {i} ('{self._spec(i).name}') of GradientReducer '{self._name}' was "
                "started with `out`, where its sum will be. Call finish without `out`."
            )
        _core.finish_tensor(self._handle, i, target, limit_s)
        del self._outs[i]
        return target

    def _spec(self, i: int) -> TensorSpec:
        i, count = as_integer(i, "`i`"), len(self._plan.tensors)
        if not 0 <= i < count:
            has = f"has tensors 0 to {count - 1}" if count else "has no tensors"
            raise IndexError(f"GradientReducer '{self._name}' {has}. Received: i={i}.")
        return self._plan.tensors[i]

    def close(self) -> None:
        """Free the buckets, as the end of the object does. Local.

        Later calls raise `ValueError`; closing again does not.
        """
        self._handle = 0
        self._free()


def _as_gpu(gpu: int) -> int:
    gpu = as_integer(gpu, "`gpu`", num_bits=32)
    if gpu < -1:
        raise ValueError(f"`gpu` must be -1 for none, or >= 0. Received: gpu={gpu}.")
    return gpu


def _as_address(value: int, argument: str) -> int:
    address = as_integer(value, argument)
    if address < 0:
        raise ValueError(f"{argument} must be >= 0. Received: {address}.")
    return address
