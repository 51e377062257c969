"""Describe a pipeline as a tree of transformations: plain data, no TensorFlow."""

# A transformation knows its inputs, so the last one of a pipeline stands for the whole of it. A
# source counts as a transformation without inputs. The description is made by
# `tnt_data.transformations.read`; planning and explaining only look at this.

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
    BATCH = "joins samples into batches of equal shapes"
    PADDED_BATCH = "joins samples into batches and pads them"
    OTHER_BATCH = "joins samples into batches in another way"
    UNBATCH = "takes batches apart"
    SHUFFLE = "changes the order of elements"
    CACHE = "stores elements"
    ARRANGE = "passes elements on unchanged: some, all, or several times"
    FUNCTION = "runs a user's function on each element"
    EXPAND = "makes several elements out of one, or one out of several"
    MERGE = "joins several pipelines"
    OPAQUE = "not understood"


class Trait(enum.Flag):
    """What else distinguishes a transformation from others of its kind."""

    NONE = 0
    IN_MEMORY = enum.auto()  # a source whose elements lie in memory, such as file names
    KEEPS_SEQUENCE = enum.auto()  # passes on every element once, in the same order
    SAME_FOR_PARTS = enum.auto()  # samples of a rank may be picked before it
    FILTERS = enum.auto()  # its functions decide which elements there are, like that of `filter`
    ZIPS = enum.auto()  # makes each element of one element of every input, like `zip`
    # its last input only selects between the others, element by element
    LAST_INPUT_SELECTS = enum.auto()


PASSES_ELEMENTS_UNSEEN = frozenset({Kind.SHUFFLE, Kind.CACHE, Kind.ARRANGE})
"""Kinds that never look into an element: they do the same to micro-batches as to whole batches."""

JOINS_SAMPLES = frozenset({Kind.BATCH, Kind.PADDED_BATCH, Kind.OTHER_BATCH})
"""Kinds after which an element is a batch."""


@dataclass(frozen=True)
class BatchParameters:
    """Parameters of a transformation that joins samples."""

    batch_size: int | None  # None if it is not one number
    drop_remainder: bool
    rows_are_independent: bool  # not if padded to the longest sample, say
    sample_bytes: int | None  # of one (padded) sample; None if not known


@dataclass(frozen=True, eq=False)
class Transformation:
    """One transformation of a pipeline, together with everything before it."""

    kind: Kind
    name: str  # the method or function that makes it, for example `"padded_batch"`
    text: str  # the name with the important arguments
    inputs: tuple[Transformation, ...] = ()  # none for a source
    dataset: Any = field(default=None, repr=False)  # which only what builds datasets looks at
    traits: Trait = Trait.NONE
    batch: BatchParameters | None = None  # if the kind is in `JOINS_SAMPLES`
    seeds: str = ""  # that a shuffle or random source was made with, in words
    lacks_seed: bool = False  # its order differs from process to process
    functions_lack_seed: bool = False  # shuffles in its functions get one when it is rebuilt
    changes_order: bool = False  # gives elements in another order, or others, in every pass
    is_nondeterministic: bool = False  # was asked for `deterministic=False`
    depends_on_cores: bool = False  # the order depends on the number of processor cores
    cache_file: str = ""  # of a cache or snapshot on disk; empty for none or memory
    # words of `contents_of` for what was found inside its functions
    function_contents: frozenset[str] = frozenset()
    place: str = ""  # of its function in the user's code, "file:line"; empty if not known
    calls_in_order: bool = True  # its functions are called for one element after the other
    is_map: bool = False  # makes exactly one element of each, and of that one alone
    can_map_parts: bool = False  # is a map that can also be applied to one part of a larger element
    is_row_wise: bool = False  # is a map that, given batches, treats each row alone
    # of a map, in words; empty if results do not depend on other samples
    reason_to_run_for_all: str = ""
    changes_nothing: bool = False  # is a map that TensorFlow may leave out when it optimises
    element_bytes: int | None = None  # None if not known
    num_elements: int | None = None  # None if not known or without end
    # what shapes tell about batches, where nothing else decides
    first_dimension: FirstDimension = field(default_factory=FirstDimension)
    same_elements: bool = False  # types and shapes are those of the only input
    can_be_rebuilt: bool = False  # the same can be done to other inputs

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
