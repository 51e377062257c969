"""`evaluate` and `predict` on all ranks."""

from __future__ import annotations

from typing import Any

from tnt_keras.callbacks.select import for_this_rank
from tnt_keras.collectives.collective_call import collective_call
from tnt_keras.inputs.arguments import Samples, Sharing, checked, must_be_left_to_keras
from tnt_keras.inputs.distribute import make_feed
from tnt_keras.model.first_step import PreparedSteps
from tnt_keras.process.verbosity import verbosity


class Evaluating(PreparedSteps):
    """Mixin for a Keras model: evaluates and predicts on all ranks."""

    @collective_call("evaluate")
    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Any = "auto",
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        return_dict: bool = False,
        *,
        tnt_micro_batch_size: int | None = None,
        tnt_distribute_dataset: bool = True,
        verify_inputs: bool = False,
        **kwargs: Any,
    ) -> Any:
        """As `keras.Model.evaluate`, on all ranks together. Collective.

        Args:
            x: As for `fit`.
            y: As for `fit`.
            batch_size: As for `fit`.
            verbose: As for `fit`.
            sample_weight: As for `fit`.
            steps: As in Keras.
            callbacks: As for `fit`.
            return_dict: As in Keras.
            tnt_micro_batch_size: As for `fit`.
            tnt_distribute_dataset: As for `fit`.
            verify_inputs: As for `fit`.
            **kwargs: What Keras passes on when `fit` validates.

        Returns:
            Loss and metrics over all samples, equal on all ranks.

        Raises:
            ValueError: As `fit` does.
        """
        if kwargs:  # `fit` validates, with data that it has distributed
            return super().evaluate(
                x, y, batch_size, verbose, sample_weight, steps, callbacks, return_dict, **kwargs
            )
        self._check_compiled("evaluate")
        samples = Samples(x, y, sample_weight, batch_size)
        if must_be_left_to_keras(samples):
            return super().evaluate(
                x, y, batch_size, verbose, sample_weight, steps, callbacks, return_dict
            )
        sharing = Sharing(tnt_micro_batch_size, tnt_distribute_dataset, verify_inputs, steps)
        feed = make_feed(checked(samples, sharing), sharing)
        self._prepare("test_step", feed)
        end = self._end_of_data(testing=feed)
        return super().evaluate(
            feed.data,
            verbose=verbosity(verbose),
            steps=steps,
            callbacks=for_this_rank(callbacks, training=False, first=end),
            return_dict=return_dict,
        )

    @collective_call("predict")
    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        steps: int | None = None,
        callbacks: Any = None,
        *,
        tnt_micro_batch_size: int | None = None,
        tnt_distribute_dataset: bool = True,
        verify_inputs: bool = False,
    ) -> Any:
        """As `keras.Model.predict`, on all ranks together. Collective.

        Args:
            x: As for `fit`.
            batch_size: As for `fit`.
            verbose: As for `fit`.
            steps: As in Keras.
            callbacks: As for `fit`.
            tnt_micro_batch_size: As for `fit`.
            tnt_distribute_dataset: False if each rank gives samples of its own.
            verify_inputs: As for `fit`.

        Returns:
            The predictions for all samples in their order, on all ranks; if each rank has samples
            of its own, the predictions for those.

        Raises:
            ValueError: As `fit` does.
        """
        samples = Samples(x, batch_size=batch_size)
        if must_be_left_to_keras(samples):
            return super().predict(x, batch_size, verbose, steps, callbacks)
        sharing = Sharing(
            tnt_micro_batch_size, tnt_distribute_dataset, verify_inputs, steps, apart=True
        )
        feed = make_feed(checked(samples, sharing), sharing)
        self._prepare("predict_step", feed)
        end = self._end_of_data(predicting=feed)
        return super().predict(
            feed.data,
            verbose=verbosity(verbose),
            steps=steps,
            callbacks=for_this_rank(
                callbacks,
                training=False,
                first=end,
                lockstep=tnt_distribute_dataset or feed.is_compared,
            ),
        )
