"""Describe a pipeline as a tree of transformations: plain data, no TensorFlow.

A transformation knows its inputs, so the last one of a pipeline stands for the whole of it. A
source counts as a transformation without inputs. The description is made by
`tnt_data.transformations.read`; planning and explaining only look at this.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tnt_data.elements.first_dimension import FirstDimension


class Kind(enum.Enum):
    """What a transformation does to the elements that pass through it."""

    SOURCE = "source of single elements"
    GENERATOR = "source of elements of unknown meaning"
    RANDOM = "source of random numbers"
    BATCH = "joins samples to batches of equal shapes"
    PADDED_BATCH = "joins samples to batches and pads them"
    OTHER_BATCH = "joins samples to batches in another way"
    UNBATCH = "takes batches apart"
    SHUFFLE = "changes the order of elements"
    CACHE = "stores elements"
    ARRANGE = "passes elements on unseen: some, all, or several times"
    FUNCTION = "runs a function of the user on each element"
    EXPAND = "makes several elements of one, or one of several"
    MERGE = "joins several pipelines"
    OPAQUE = "not understood"


class Trait(enum.Flag):
    """What else distinguishes a transformation from others of its kind.

    Attributes:
        NONE: Nothing.
        IN_MEMORY: A source whose elements lie in memory, such as file names.
        KEEPS_SEQUENCE: Passes on every element once, in the same order.
        SAME_FOR_PARTS: Does the same to some of the elements as to all, so that a rank's samples
            may be picked before it.
        FILTERS: Its functions decide which elements there are, like that of `filter`.
        ZIPS: Makes each element of one element of every input, like `zip`.
        LAST_INPUT_SELECTS: Its last input only selects between the others, element by element.
    """

    NONE = 0
    IN_MEMORY = enum.auto()
    KEEPS_SEQUENCE = enum.auto()
    SAME_FOR_PARTS = enum.auto()
    FILTERS = enum.auto()
    ZIPS = enum.auto()
    LAST_INPUT_SELECTS = enum.auto()


PASSES_ELEMENTS_UNSEEN = frozenset({Kind.SHUFFLE, Kind.CACHE, Kind.ARRANGE})
"""Kinds that never look into an element: they do the same to micro-batches as to whole batches."""

JOINS_SAMPLES = frozenset({Kind.BATCH, Kind.PADDED_BATCH, Kind.OTHER_BATCH})
"""Kinds after which an element is a batch."""


@dataclass(frozen=True)
class BatchParameters:
    """Parameters of a transformation that joins samples.

    Attributes:
        batch_size: Samples per batch, None if it is not one number.
        drop_remainder: Whether a short last batch is left out.
        rows_are_independent: Whether a row of the batch comes from its sample alone. Padding to the
            longest sample, for example, depends on all of them.
        sample_bytes: Bytes of one (padded) sample; None if not known.
    """

    batch_size: int | None
    drop_remainder: bool
    rows_are_independent: bool
    sample_bytes: int | None


@dataclass(frozen=True, eq=False)
class Transformation:
    """One transformation of a pipeline, together with everything before it.

    Attributes:
        kind: What it does to elements.
        name: The method or function that makes it, for example `"padded_batch"`.
        text: The name with the important arguments.
        inputs: Transformations that feed this one; none for a source.
        dataset: The dataset object, which only what builds datasets looks at.
        traits: What else distinguishes it from others of its kind.
        batch: Parameters, if the kind is in `JOINS_SAMPLES`.
        seeds: The seeds that a shuffle or random source was made with, in words; empty without.
        lacks_seed: Whether it is a shuffle or random source whose order differs from process to
            process.
        functions_lack_seed: Whether shuffles in its functions lack a seed, which they get when it
            is rebuilt.
        changes_order: Whether it gives elements in another order, or others, in every pass.
        is_nondeterministic: Whether it was asked for `deterministic=False`.
        depends_on_cores: Whether the order depends on the number of processor cores.
        cache_file: Where a cache or snapshot on disk lies; empty for none or memory.
        function_contents: What was found inside its functions: `"batch"`, `"unbatch"`, `"shuffle"`
            (unseeded), `"generator"`, `"random"` (numbers without a seed), `"seeded random"`,
            `"permutes"` (at random), `"state"` (operations that remember something), `"python"`
            (Python code).
        calls_in_order: Whether its functions are called for one element after the other.
        is_map: Whether it makes exactly one element of each, and of that one alone.
        can_map_parts: Whether it is a map that can also be applied to one part of a larger element.
        is_row_wise: Whether it is a map of which is known that, given batches, it treats each row
            alone.
        reason_to_run_for_all: Why its function must run for all samples in their order, in words;
            empty if the result for one sample does not depend on others. Only of maps.
        changes_nothing: Whether it is a map that TensorFlow may leave out when it optimises the
            pipeline.
        element_bytes: Bytes of one element; None if not known.
        num_elements: How many elements there are; None if not known or without end.
        first_dimension: What the shapes of the elements tell about batches; used where nothing
            else decides.
        same_elements: Whether the elements have the same types and shapes as those of the only
            input.
        can_be_rebuilt: Whether the same can be done to other inputs.
    """

    kind: Kind
    name: str
    text: str
    inputs: tuple[Transformation, ...] = ()
    dataset: Any = field(default=None, repr=False)
    traits: Trait = Trait.NONE
    batch: BatchParameters | None = None
    seeds: str = ""
    lacks_seed: bool = False
    functions_lack_seed: bool = False
    changes_order: bool = False
    is_nondeterministic: bool = False
    depends_on_cores: bool = False
    cache_file: str = ""
    function_contents: frozenset[str] = frozenset()
    calls_in_order: bool = True
    is_map: bool = False
    can_map_parts: bool = False
    is_row_wise: bool = False
    reason_to_run_for_all: str = ""
    changes_nothing: bool = False
    element_bytes: int | None = None
    num_elements: int | None = None
    first_dimension: FirstDimension = field(default_factory=FirstDimension)
    same_elements: bool = False
    can_be_rebuilt: bool = False

    @property
    def needs_seed(self) -> bool:
        """Whether it gets a seed."""
        return self.lacks_seed or self.functions_lack_seed

    @property
    def branches(self) -> tuple[Transformation, ...]:
        """Inputs whose elements are passed on, without the one that only selects between them."""
        return self.inputs[:-1] if Trait.LAST_INPUT_SELECTS in self.traits else self.inputs

    @property
    def freezes_order(self) -> bool:
        """Whether it caches elements whose order would change in the next pass."""
        return self.kind is Kind.CACHE and any(one.changes_order for one in self.walk())

    @property
    def identity(self) -> int:
        """A number of the dataset object, which may be described several times, once per branch."""
        return id(self if self.dataset is None else self.dataset)

    def walk(self) -> Iterator[Transformation]:
        """Yield everything that feeds this transformation, and itself; sources first. Local."""
        for upstream in self.inputs:
            yield from upstream.walk()
        yield self
