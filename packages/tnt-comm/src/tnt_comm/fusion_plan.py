"""Which gradients share a bucket. Pure: no communication."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnt_comm import _core
from tnt_comm.arrays import as_integer, as_text, dtype_name


@dataclass(frozen=True)
class TensorSpec:
    """One tensor that is reduced in every training step.

    Args:
        name: For messages.
        dtype: Any dtype of `tnt_comm`, as name or numpy dtype; stored as name.
        num_elements: Its size, >= 0.

    Raises:
        TypeError: If the name is not a string or the size not an integer.
        ValueError: If the dtype is not supported or the size negative.
    """

    name: str
    dtype: str | np.dtype[Any]
    num_elements: int

    def __post_init__(self) -> None:
        as_text(self.name, "`name`")
        object.__setattr__(self, "dtype", dtype_name(self.dtype))
        num_elements = as_integer(self.num_elements, f"`num_elements` of tensor '{self.name}'")
        object.__setattr__(self, "num_elements", num_elements)
        if self.num_elements < 0:
            raise ValueError(
                f"`num_elements` of tensor '{self.name}' must be >= 0. "
                f"Received: num_elements={self.num_elements}."
            )


@dataclass(frozen=True)
class Bucket:
    """Tensors of one dtype that are reduced together.

    Args:
        dtype: Name of the dtype.
        tensor_ids: Indices into the plan's tensors.
        offsets: Where each of them begins in the bucket, in elements.
        num_elements: Number of elements of all of them.
        wire_dtype: Name of the dtype as which they travel between ranks.
    """

    dtype: str
    tensor_ids: tuple[int, ...]
    offsets: tuple[int, ...]
    num_elements: int
    wire_dtype: str

    @property
    def num_bytes(self) -> int:
        """Bytes of the tensors."""
        return self.num_elements * np.dtype(self.dtype).itemsize

    @property
    def num_wire_bytes(self) -> int:
        """Bytes that a rank contributes in each step."""
        return self.num_elements * np.dtype(self.wire_dtype).itemsize


class FusionPlan:
    """Pack tensors into buckets, so that small ones are reduced together.

    Tensors are taken in reverse order, since backpropagation produces
    gradients roughly from the last variable to the first. Each dtype has one
    open bucket: while it holds fewer than `threshold_bytes`, the next tensor
    is appended, otherwise it is closed and the tensor opens a new one. Every
    bucket but the last of its dtype thus reaches the threshold; 0 fuses
    nothing.

    With a wire dtype, float32 tensors are rounded to 16 bits when they are
    packed, which halves what travels; tensors of other dtypes stay as they
    are. Sums are formed in float32 over the whole tree and rounded once::

        sum = round(tree sum of round(scale_r * x_r) over all ranks r)

    With the unit roundoff u (2^-8 for bfloat16, 2^-11 for float16) and without
    overflow, the error of a sum is at most::

        u * (1 + u) * (sum of abs(scale_r * x_r) over all ranks r) + u * abs(sum)

    and what float32 adds. float16 can hold nothing beyond 65504, and loses bits
    below 6.1e-5.

    Local and deterministic: equal arguments give equal plans on all ranks.

    Args:
        tensors: In the order of the model's variables.
        threshold_bytes: Size in bytes, >= 0, at which a bucket is closed;
            counted as the tensors are, not as they travel.
        wire_dtype: "bfloat16", "float16", or None for no compression.

    Raises:
        TypeError: If the threshold is not an integer, or the wire dtype not a string.
        ValueError: If the threshold is negative, or the wire dtype a different one.

    Example:
        >>> sizes = [94, 17, 2, 81]
        >>> tensors = [TensorSpec(f"t{i}", "float32", n) for i, n in enumerate(sizes)]
        >>> [bucket.tensor_ids for bucket in FusionPlan(tensors, 82 * 4).buckets]
        [(3, 2), (1, 0)]
    """

    def __init__(
        self,
        tensors: Sequence[TensorSpec],
        threshold_bytes: int,
        wire_dtype: str | None = None,
    ) -> None:
        threshold_bytes = as_integer(threshold_bytes, "`threshold_bytes`")
        if wire_dtype is not None:
            as_text(wire_dtype, "`wire_dtype`")
        if threshold_bytes < 0:
            raise ValueError(
                f"`threshold_bytes` must be >= 0. Received: threshold_bytes={threshold_bytes}."
            )
        self._tensors = tuple(tensors)
        self._threshold_bytes = threshold_bytes
        plain = [(spec.name, str(spec.dtype), spec.num_elements) for spec in self._tensors]
        self._wire_dtype = wire_dtype
        self._core = _core.FusionPlan(plain, threshold_bytes, wire_dtype)
        self._buckets = tuple(
            Bucket(
                dtype=bucket.dtype,
                tensor_ids=tuple(bucket.tensor_ids),
                offsets=tuple(bucket.offsets),
                num_elements=bucket.num_elements,
                wire_dtype=bucket.wire_dtype,
            )
            for bucket in self._core.buckets
        )

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        """The tensors, in the order given."""
        return self._tensors

    @property
    def threshold_bytes(self) -> int:
        """Size at which a bucket is closed."""
        return self._threshold_bytes

    @property
    def wire_dtype(self) -> str | None:
        """The dtype to which float32 tensors are rounded in transit; None if they are not."""
        return self._wire_dtype

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        """The buckets, in the order in which they are opened."""
        return self._buckets

    @property
    def core(self) -> _core.FusionPlan:
        """The C++ object, for `GradientReducer`."""
        return self._core
