"""A model that trains and one that translates, with the same weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from models.transformer.beam_search import beam_search
from models.transformer.loss import LabelSmoothedCrossentropy
from models.transformer.metrics import make_metrics
from models.transformer.network import Transformer
from models.transformer.params import TransformerParams
from models.transformer.schedule import WarmupInverseSquareRoot
from models.transformer.special_tokens import PAD


@keras.saving.register_keras_serializable("tnt_models")
class BeamSearch(keras.layers.Layer):
    """Translate by beam search.

    Args:
        transformer: The network.
        **kwargs: Of the layer.
    """

    def __init__(self, transformer: Transformer, **kwargs: Any) -> None:
        kwargs.setdefault("dtype", transformer.dtype_policy)
        super().__init__(**kwargs)
        self.transformer = transformer

    def build(self, input_shape: Any) -> None:
        """Make the weights of the network, unless it has them."""
        if not self.transformer.built:
            self.transformer.build(input_shape)
        self.built = True

    def call(self, sources: Any) -> dict[str, tf.Tensor]:
        """Translate a batch.

        Args:
            sources: Subwords (batch, length), integers, each with an end of sentence, padded with
                0.

        Returns:
            `outputs`: subwords (batch, length + extra_decode_length), int32, padded behind the end
            of sentence; `scores`: (batch,), float32.
        """
        params, network = self.transformer.params, self.transformer
        memory, is_memory_visible = network.encode(sources, training=False)

        def of_beam(tensor: tf.Tensor) -> tf.Tensor:
            return tf.repeat(tensor, params.beam_size, axis=0)

        of_layers = tf.nest.map_structure(of_beam, network.decoder.memory_of_layers(memory))
        is_memory_visible = of_beam(is_memory_visible)

        def step(tokens: Any, position: Any, cache: Any) -> tuple[Any, Any]:
            return network.step(tokens, position, cache, of_layers, is_memory_visible)

        is_token = tf.cast(tf.not_equal(sources, PAD), tf.int32)
        outputs, scores = beam_search(
            step,
            network.empty_cache(tf.shape(sources)[0] * params.beam_size),
            limits=tf.reduce_sum(is_token, axis=1) + params.extra_decode_length,
            beam_size=params.beam_size,
            alpha=params.alpha,
        )
        missing = tf.shape(sources)[1] + params.extra_decode_length - tf.shape(outputs)[1]
        return {"outputs": tf.pad(outputs, [[0, 0], [0, missing]]), "scores": scores}

    def compute_output_spec(self, sources: Any) -> dict[str, keras.KerasTensor]:
        """Return shapes and dtypes of the results."""
        batch_size, length = sources.shape
        if length is not None:
            length += self.transformer.params.extra_decode_length
        return {
            "outputs": keras.KerasTensor((batch_size, length), "int32"),
            "scores": keras.KerasTensor((batch_size,), "float32"),
        }

    def get_config(self) -> dict[str, Any]:
        """Return the arguments, for saving."""
        network = keras.saving.serialize_keras_object(self.transformer)
        return {**super().get_config(), "transformer": network}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> BeamSearch:
        """Return a layer like the one that was saved.

        Args:
            config: What `get_config` returned.
        """
        network = keras.saving.deserialize_keras_object(config.pop("transformer"))
        return cls(network, **config)


def create_model(
    internal_model: Transformer, params: TransformerParams, is_train: bool
) -> keras.Model:
    """Return a plain Keras model around a network; several of them share its weights.

    Args:
        internal_model: The network.
        params: With which it was made.
        is_train: Whether the model takes (inputs, targets) and returns logits, or takes inputs and
            returns translations (`outputs`) and their `scores`.
    """
    if internal_model.params != params:
        raise ValueError("The network was made with other parameters than those given.")
    inputs = keras.Input((None,), dtype="int64", name="inputs")
    if not is_train:
        results = BeamSearch(internal_model, name="beam_search")(inputs)
        return keras.Model(inputs, results, name="translation")
    targets = keras.Input((None,), dtype="int64", name="targets")
    logits = internal_model(inputs, targets)
    return keras.Model((inputs, targets), logits, name="training")


def make_optimizer(params: TransformerParams) -> keras.optimizers.Optimizer:
    """Return Adam with the schedule of warm-up, as the paper has it."""
    schedule = WarmupInverseSquareRoot(
        params.learning_rate, params.hidden_size, params.learning_rate_warmup_steps
    )
    return keras.optimizers.Adam(
        schedule,
        beta_1=params.adam_beta_1,
        beta_2=params.adam_beta_2,
        epsilon=params.adam_epsilon,
    )


class TransformerTntTask:
    """Two models that share one network: one trains on all ranks, one stays on its own rank.

    Args:
        params: Hyper-parameters.
        wrap: Makes a distributed model of the one that is trained: `tnt.Model`; nothing for a
            serial run.
        metrics_in_training: Whether accuracies and perplexity are logged beside the loss.

    Attributes:
        train_model: Takes (inputs, targets), returns logits; compiled.
        predict_model: Takes inputs, returns translations; plain Keras on every rank.
    """

    def __init__(
        self,
        params: TransformerParams,
        wrap: Callable[[keras.Model], keras.Model] = lambda model: model,
        *,
        metrics_in_training: bool = False,
    ) -> None:
        self.params = params
        self.internal_model = Transformer(params, name="transformer")
        self.train_model = wrap(create_model(self.internal_model, params, is_train=True))
        self.predict_model = create_model(self.internal_model, params, is_train=False)
        self.train_model.compile(
            optimizer=make_optimizer(params),
            loss=LabelSmoothedCrossentropy(params.label_smoothing),
            metrics=make_metrics() if metrics_in_training else [],
        )
