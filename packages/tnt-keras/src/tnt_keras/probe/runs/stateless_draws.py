"""Say for each random operation of TensorFlow what it draws, and how to draw that from a seed.

Normal and uniform numbers are drawn before they are scaled, the mask of a dropout before it is a
mask, so that gradients flow through mean, deviation and inputs as ever. So do those of gamma's
shape parameter, by implicit reparametrisation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

Shape = tuple[int, ...]
Make = Callable[[np.ndarray, tuple[int, int]], tf.Tensor]


OWN_SEED = 0x7A57
"""Takes the place of every seed of the user and of TensorFlow."""


@dataclass(frozen=True)
class Draw:
    """One tensor of random numbers that was asked for.

    Attributes:
        kind: Of the distribution.
        shape: Of the tensor.
        make: Draws it for an int32 shape and a seed, the same for the same seed.
        is_alike: Whether each row is drawn alike, so that `make` can draw fewer or more.
    """

    kind: str
    shape: Shape
    make: Make
    is_alike: bool = True

    def numbers(self, index: int, shape: Shape | None = None) -> tf.Tensor:
        """Return what is drawn at one call. Local.

        Args:
            index: Of the call.
            shape: If other rows than those asked for are drawn.
        """
        size = self.shape if shape is None else shape
        return self.make(np.array(size, np.int32), (OWN_SEED, index))


Serve = Callable[[Draw], tf.Tensor]
Operation = Callable[[Callable[..., Any], Mapping[str, Any], Serve], Any]
"""Given the plain function, its arguments by name and who serves draws, returns the result."""


def _numbers(kind: str, draw: Callable[..., tf.Tensor], *arguments: str) -> Operation:
    """Draw from a distribution that is the same for all entries, with these scalar arguments."""

    def operation(plain: Any, given: Mapping[str, Any], serve: Serve) -> tf.Tensor:
        scalars = {name: given[name] for name in arguments}
        return serve(
            Draw(
                f"{kind} {tf.as_dtype(given['dtype']).name if 'dtype' in given else ''}".rstrip(),
                _shape(given["shape"]),
                lambda shape, seed: draw(shape=shape, seed=seed, **scalars),
            )
        )

    return operation


def _gamma(shape: Shape, alpha: tf.Tensor, serve: Serve) -> tf.Tensor:
    alpha = tf.broadcast_to(alpha, shape)
    sample = serve(
        Draw(
            "gamma",
            shape,
            lambda shape, seed: tf.raw_ops.StatelessRandomGammaV2(
                shape=shape, seed=seed, alpha=tf.stop_gradient(alpha)
            ),
            is_alike=False,
        )
    )

    @tf.custom_gradient
    def sample_of(alpha: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            return upstream * tf.raw_ops.RandomGammaGrad(alpha=alpha, sample=sample)

        return tf.identity(sample), gradient

    return sample_of(alpha)


def _poisson(shape: Shape, rate: tf.Tensor, dtype: tf.DType, serve: Serve) -> tf.Tensor:
    return serve(
        Draw(
            "poisson",
            shape,
            lambda shape, seed: tf.raw_ops.StatelessRandomPoisson(
                shape=shape, seed=seed, lam=rate, dtype=dtype
            ),
            is_alike=False,
        )
    )


def _random_gamma(plain: Any, given: Mapping[str, Any], serve: Serve) -> tf.Tensor:
    alpha = given["alpha"]
    return _gamma(_shape(given["shape"]) + tuple(alpha.shape), alpha, serve)


def _stateless_random_gamma(plain: Any, given: Mapping[str, Any], serve: Serve) -> tf.Tensor:
    return _gamma(_shape(given["shape"]), given["alpha"], serve)


def _random_poisson(plain: Any, given: Mapping[str, Any], serve: Serve) -> tf.Tensor:
    rate = tf.convert_to_tensor(given["rate"])
    return _poisson(_shape(given["shape"]) + tuple(rate.shape), rate, given["dtype"], serve)


def _stateless_random_poisson(plain: Any, given: Mapping[str, Any], serve: Serve) -> tf.Tensor:
    return _poisson(_shape(given["shape"]), given["lam"], given["dtype"], serve)


def _binomial(plain: Any, given: Mapping[str, Any], serve: Serve) -> tf.Tensor:
    return serve(
        Draw(
            "binomial",
            _shape(given["shape"]),
            lambda shape, seed: tf.raw_ops.StatelessRandomBinomial(
                shape=shape,
                seed=seed,
                counts=given["counts"],
                probs=given["probs"],
                dtype=given["dtype"],
            ),
            is_alike=False,
        )
    )


def _multinomial(plain: Any, given: Mapping[str, Any], serve: Serve) -> tf.Tensor:
    logits = tf.stop_gradient(given["logits"])
    return serve(
        Draw(
            "multinomial",
            (logits.shape[0], int(given["num_samples"])),
            lambda shape, seed: tf.raw_ops.StatelessMultinomial(
                logits=logits,
                num_samples=shape[1],
                seed=seed,
                output_dtype=given["output_dtype"],
            ),
            is_alike=False,
        )
    )


def _shuffle(plain: Any, given: Mapping[str, Any], serve: Serve) -> tf.Tensor:
    value = tf.stop_gradient(given["value"])
    keys = serve(
        Draw(
            "shuffle",
            (value.shape[0],),
            lambda shape, seed: tf.raw_ops.StatelessRandomUniform(shape=shape, seed=seed),
        )
    )
    return tf.gather(value, tf.argsort(keys, stable=True))


def _candidates(plain: Any, given: Mapping[str, Any], serve: Serve) -> Any:
    """Serve sampled classes (sampled) and expected counts (batch, true), (sampled)."""
    drawn = plain(**{**given, "seed": OWN_SEED, "seed2": OWN_SEED})
    return type(drawn)(
        *(
            serve(Draw("candidates", tuple(part.shape), lambda *_, part=part: part, is_alike=False))
            for part in drawn
        )
    )


def _own_seed(plain: Any, given: Mapping[str, Any], serve: Serve) -> tuple[int, int]:
    return OWN_SEED, OWN_SEED


def _same_state(plain: Any, given: Mapping[str, Any], serve: Serve) -> tf.Tensor:
    """Return some state of a `tf.random.Generator` without advancing its own; it is not used."""
    return tf.zeros([3], tf.int64)


def _shape(shape: Any) -> Shape:
    return tuple(int(size) for size in np.asarray(shape))


_raw = tf.raw_ops
_normal = _numbers("normal", _raw.StatelessRandomNormal, "dtype")
_truncated_normal = _numbers("truncated normal", _raw.StatelessTruncatedNormal, "dtype")
_uniform = _numbers("uniform", _raw.StatelessRandomUniform, "dtype")
_uniform_int = _numbers("uniform integers", _raw.StatelessRandomUniformInt, "minval", "maxval")
_full_int = _numbers("integers", _raw.StatelessRandomUniformFullInt, "dtype")

OPERATIONS: Mapping[str, Operation] = {
    "all_candidate_sampler": _candidates,
    "fixed_unigram_candidate_sampler": _candidates,
    "get_seed": _own_seed,
    "learned_unigram_candidate_sampler": _candidates,
    "log_uniform_candidate_sampler": _candidates,
    "multinomial": _multinomial,
    "random_gamma": _random_gamma,
    "random_poisson_v2": _random_poisson,
    "random_shuffle": _shuffle,
    "random_standard_normal": _normal,
    "random_uniform": _uniform,
    "random_uniform_int": _uniform_int,
    "rng_read_and_skip": _same_state,
    "stateful_random_binomial": _binomial,
    "stateless_multinomial": _multinomial,
    "stateless_random_binomial": _binomial,
    "stateless_random_gamma_v3": _stateless_random_gamma,
    "stateless_random_normal_v2": _normal,
    "stateless_random_poisson": _stateless_random_poisson,
    "stateless_random_uniform_full_int_v2": _full_int,
    "stateless_random_uniform_int_v2": _uniform_int,
    "stateless_random_uniform_v2": _uniform,
    "stateless_shuffle": _shuffle,
    "stateless_truncated_normal_v2": _truncated_normal,
    "truncated_normal": _truncated_normal,
    "uniform_candidate_sampler": _candidates,
}
"""What takes the place of each function of TensorFlow that draws."""
