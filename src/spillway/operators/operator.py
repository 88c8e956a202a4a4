"""The base class of operators: a declaration the graph checks, and the kernel that runs.

class RunningMean(sw.Operator):
    schema = sw.columns(mean=pa.float64())
    total = sw.Number(metric="l1")
    count = sw.Number(metric="l1")

    def process(self, port, batch):
        self.total += pc.sum(batch["value"]).as_py()
        self.count += batch.num_rows
        yield self.out(mean=self.total / self.count)
"""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.backup.policies import check_protection
from spillway.backup.promise import Loss
from spillway.backup.spread import shards_adding_up
from spillway.errors import GraphError, InputError
from spillway.graph.delays import check_delay
from spillway.graph.feeds import BEFORE_ALL, SEQ, SEQ_FIELD
from spillway.graph.protections import Exact, Nothing, Protection
from spillway.graph.watermarks import Watermark
from spillway.graph.windows import Windowing
from spillway.operators.adding import Added, AddingUp
from spillway.operators.carried import ANYTHING, NOTHING, Carried
from spillway.operators.wording import written_down
from spillway.state.primitives import Primitive
from spillway.state.shard import Shard


@dataclass(frozen=True, slots=True)
class Out:
    """Tuples leaving by a port."""

    port: str
    batch: pa.RecordBatch


def columns(**types: pa.DataType) -> pa.Schema:
    """The columns of an output, ``seq`` first: what a class gives as its ``schema``."""
    return pa.schema([SEQ_FIELD, *(pa.field(name, kind) for name, kind in types.items())])


class Operator:
    """One step of a graph.

    A subclass declares its ports, its output ``schema`` and its state (class attributes that are primitives), and
    implements ``process``, and ``finish`` if it has something to say once per batch.

    A ``window`` says which tuples the state is about (see ``Hopping``, ``Sliding``, ``Decaying``): tuples given to
    ``process`` never cross the end of a hopping window, whose number is ``open_window``, ``finish`` is called for each
    window of a batch, and ``end_window`` when one has ended; after that all state is empty again.

    ``feedback_inputs`` are further input ports, for what operators downstream send back. It comes in the batch after
    the one in which it was sent, to every shard, before any other tuple.

    ``process`` gets the tuples of one input port, sorted by ``seq``, in one record batch per batch and port. One to
    which neither order nor portions matter sets ``ordered = False`` and gets tuples as they come, in several calls:
    that is faster.

    What its state means is noted with the state (see ``meaning``), and a run that resumes with another meaning is
    refused. ``parameters`` names the attributes it depends on, beside key and window; ``version`` is raised when the
    class comes to do something else with the same ones.

    A run may be resumed with another number of shards (see ``engine.rescaling``). ``state_by_key`` names the tables
    whose keys are the operator's key: each key goes to its new shard. ``state_added_up`` names numbers of which only
    the sum over shards counts: whole shards are added up. ``rescaled`` sees to the rest.

    Where null is a key like others, ``null_keys`` says so; elsewhere a tuple without a key is refused.

    One to which tuples that are lost do harm for ever, however few, sets ``needs_all_tuples``: a run is refused in
    which nothing bounds what it can lose.

    On several hosts ``delay_max`` says how late its output may be because a host is gone (see ``protocols.placement``).
    ``delay_min`` is the least time in which any operator of the class can be done with a tuple: a graph that allows it,
    or a path through it, less is refused.
    """

    inputs: tuple[str, ...] = ("in",)
    feedback_inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ("out",)
    schema: ClassVar[pa.Schema | None] = None
    ordered: ClassVar[bool] = True
    outputs_per_tuple_max: float = 1.0
    delay_min: timedelta = timedelta(0)
    needs_all_tuples: ClassVar[bool] = False
    null_keys: ClassVar[bool] = False
    version: ClassVar[int] = 1
    parameters: ClassVar[tuple[str, ...]] = ()
    state_by_key: ClassVar[tuple[str, ...]] = ()
    state_added_up: ClassVar[tuple[str, ...]] = ()
    windows_at_once: bool = False  # see SeveralWindows
    watermark: Watermark | None = None  # what ends its windows, once the graph is checked; None for later tuples
    late: bool = False  # whether tuples that are put aside leave by a port of that name
    _on_class: ClassVar[Mapping[str, Primitive]] = {}  # the primitives declared on the class and its bases

    def __init_subclass__(cls) -> None:
        # Asked for with every batch; kept by the class itself, so that it goes with it.
        cls._on_class = _primitives(
            {name: value for kind in reversed(cls.__mro__) for name, value in vars(kind).items()}
        )

    def __init__(
        self,
        name: str,
        *,
        key: str | Iterable[str] = (),
        protect: Protection | None = None,
        shards: int | None = None,
        window: Windowing | None = None,
        delay_max: timedelta | None = None,
    ) -> None:
        if protect is not None:
            check_protection(f"Operator {name!r}", protect)
        if delay_max is not None:
            check_delay(f"Operator {name!r}", delay_max)
        self.name = name
        self.key = (key,) if isinstance(key, str) else tuple(key)
        self.shards = shards
        self.windowing = window
        self.delay_max = delay_max
        self._protect = protect
        self.open_window: int | None = None  # the hopping window that tuples belong to, where there is one at a time
        self.seq = BEFORE_ALL  # the highest seen so far by this shard, or heard of at the end of a window
        self.schemas: Mapping[str, pa.Schema] = {}  # of the output ports, once opened
        self.opened_state: Mapping[str, Primitive] = {}  # the primitives at work on a shard, once opened
        self._memory: Shard | None = None  # and that shard

    # -- declaration ------------------------------------------------------------------------------------------

    @property
    def protect(self) -> Protection:
        """As given; an operator with state that says nothing is kept exact."""
        return self._protect or (Exact() if self.stateful else Nothing())

    def protected_by(self, protect: Protection, *, anyway: bool = False) -> Self:
        """The same operator under this protection, unless it keeps no state, or (but ``anyway``) names one itself."""
        if not self.stateful or (self._protect is not None and not anyway):
            return self
        check_protection(f"Operator {self.name!r}", protect)
        protected = copy.copy(self)
        protected._protect = protect
        return protected

    @property
    def stateful(self) -> bool:
        return bool(self.state())

    def state(self) -> dict[str, Primitive]:
        """The primitives declared on the class and the instance, by name."""
        return _primitives({**self._on_class, **vars(self)})

    def shards_adding_up(self, shards: int) -> int:
        """Of how many of its shards the divergence adds up: see ``backup.spread``."""
        own = type(self).divergence is not Operator.divergence
        return shards_adding_up(self.state(), shards=shards, by_key=bool(self.key), own_divergence=own)

    def describe_state(self) -> str:
        return ", ".join(f"{name} {primitive.describe()}" for name, primitive in self.state().items())

    def meaning(self) -> dict[str, str]:
        """What gives the state its meaning, as plain text; what is none is left out.

        The class, by its name wherever it lies; ``version``; key; window; the primitives; ``parameters``, those of
        base classes too. A function has no text that tells what it does: raise ``version`` when it changes.
        """
        declared = {
            "class": type(self).__name__,
            "version": written_down(self.version),
            "key": ", ".join(map(repr, self.key)) or "none",
            "window": written_down(self.windowing),
            "watermark": ", ".join(repr(clock.source) for clock in self.watermark.clocks) if self.watermark else "none",
            "state": repr(self.describe_state()),
        }
        texts = declared | {name: self._written_down(name, value) for name, value in self.parameter_values().items()}
        return {name: text for name, text in texts.items() if text != "none"}

    def parameter_values(self) -> dict[str, Any]:
        """The attributes named in ``parameters``, of base classes first."""
        kinds = reversed(type(self).__mro__)
        names = dict.fromkeys(name for kind in kinds for name in vars(kind).get("parameters", ()))
        for name in names:
            if not hasattr(self, name):
                raise GraphError(
                    f"Operator {self.name!r}: {type(self).__name__} names {name!r} among its parameters and has no "
                    f"such attribute. Set self.{name} in __init__, or take it out of parameters."
                )
        return {name: getattr(self, name) for name in names}

    def _written_down(self, name: str, value: Any) -> str:
        try:
            return written_down(value)
        except TypeError as error:
            raise GraphError(
                f"Operator {self.name!r}: parameter {name!r} cannot be part of what its state means, because {error}. "
                f"Take it out of parameters, and raise version whenever it changes."
            ) from error

    def following(self, watermark: Watermark) -> Self:
        """The same operator with its windows ended by this watermark; asked once, before ``resolved``."""
        followed = copy.copy(self)
        followed.watermark = watermark
        return followed

    def resolved(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """The same operator with all that follows from what it reads, such as the types its state is kept in.

        Asked once, when a graph is checked; what runs, and what its state means, is the operator this gives.
        """
        return self

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        """The schema of each output port; by default the class's ``schema`` for all."""
        if self.schema is None:
            raise GraphError(
                f"Operator {self.name!r}: {type(self).__name__} does not say what it puts out. Give the class a "
                f"schema, such as schema = sw.columns(mean=pa.float64())."
            )
        return dict.fromkeys(self.outputs, self.schema)

    def want(self, inputs: Mapping[str, pa.Schema], port: str, /, **types: pa.DataType | None) -> None:
        """Refuse input that lacks one of the named columns, or has it with another type (None: any)."""
        for name, wanted in types.items():
            came = inputs[port]
            if name not in came.names:
                raise GraphError(
                    f"Operator {self.name!r}: column {name!r} is wanted on port {port!r}; it gets "
                    f"{', '.join(came.names)}."
                )
            if wanted is not None and came.field(name).type != wanted:
                raise GraphError(
                    f"Operator {self.name!r}: column {name!r} must be {wanted}; it is {came.field(name).type}."
                )

    # -- what failures upstream do to it ------------------------------------------------------------------------

    @property
    def placed_by(self) -> frozenset[str]:
        """The columns that decide where a tuple counts: those of key and window."""
        window = self.windowing.column if self.windowing else None
        return frozenset([*self.key, *([window] if window else [])])

    def reads(self, port: str) -> frozenset[str] | None:
        """The columns of a port that what it keeps and puts out depends on, beside ``seq``; None for all there are."""
        return None

    def carries(self, arriving: Mapping[str, Carried]) -> float | None:
        """The most that what its inputs carry can move its state, in its metric, however long the run.

        ``arriving`` has the ports at which something may be off. None, which is what is said of an operator that
        reads such a column, if nothing bounds it. Override it to claim more, with a proof.
        """
        return None if self._sees(arriving) else 0.0

    def hands_on(self, arriving: Mapping[str, Carried], *, off: float, lost: bool) -> Mapping[str, Carried]:
        """What its outputs carry, with its state off by ``off`` in all, or more than anyone knows if that is infinite.

        ``lost`` tells that it is off because it lost memory itself. By default anything may be different then.
        """
        different = lost or off > 0 or self._sees(arriving)
        return dict.fromkeys(self.outputs, ANYTHING if different else NOTHING)

    def _sees(self, arriving: Mapping[str, Carried]) -> bool:
        """Whether any of it concerns a column that is read."""
        for port, carried in arriving.items():
            columns = None if port in self.feedback_inputs else self.reads(port)
            if columns is None or carried.touches(columns):
                return True
        return False

    # -- kernel -----------------------------------------------------------------------------------------------

    def adds_up(self, port: str) -> AddingUp | None:
        """Which tuples of a port may come added up, to ``process_added``; None, which is the default, for none.

        Only for one to which neither order nor portions matter (``ordered = False``), and only if what it keeps, puts
        out and measures is the same, bit for bit, whether tuples were added up or not.
        """
        return None

    def begin(self) -> None:
        """A batch begins, perhaps not for the first time: reset what is kept from call to call outside of state."""

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        """Apply tuples of one port; yield what follows from them. Every operator has its own."""
        raise GraphError(f"Operator {self.name!r}: {type(self).__name__} has no process().")

    def process_added(self, port: str, added: Added) -> Iterator[Out]:
        """Apply tuples added up as ``adds_up`` says of their port; more of a key may come in a later call."""
        raise GraphError(f"Operator {self.name!r}: {type(self).__name__} has adds_up() but no process_added().")

    def finish(self) -> Iterator[Out]:
        """All tuples of the batch were applied; yield what is said once per batch, and per window if there are any."""
        return iter(())

    def end_window(self, window: int) -> Iterator[Out]:
        """A hopping window has ended; yield what there is to say of it before its state is dropped."""
        return iter(())

    def out(self, port: str = "out", /, **values: Any) -> Out:
        """Output tuples from columns: arrays of one length, or single values for a single tuple.

        ``seq`` is the highest one seen unless it is given; before any was, it is one below those of all tuples.
        """
        if port not in self.schemas:
            raise InputError(f"Operator {self.name!r} has no output port {port!r}; it has {', '.join(self.schemas)}.")
        schema = self.schemas[port]
        if {SEQ, *values} != set(schema.names):
            raise InputError(
                f"Operator {self.name!r}: out() wants {', '.join(name for name in schema.names if name != SEQ)}; "
                f"got {', '.join(values) or 'nothing'}."
            )
        arrays = {name: _array(value, schema.field(name).type) for name, value in values.items()}
        length = max((len(array) for array in arrays.values()), default=0)
        arrays.setdefault(SEQ, pa.array(np.full(length, self.seq, np.int64)))
        if len({len(array) for array in arrays.values()}) > 1:
            lengths = ", ".join(f"{name} {len(array)}" for name, array in arrays.items())
            raise InputError(f"Operator {self.name!r}: out() wants columns of one length; got {lengths}.")
        return Out(port, pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema))

    # -- keeping state: the defaults follow from the primitives -------------------------------------------------

    def divergence(self) -> float:
        """How far the state is from the last durable backup: the sum over the primitives."""
        return float(sum(primitive.divergence() for primitive in self.opened_state.values()))

    def backup(self) -> pa.Table:
        """Override to store a table of one's own instead of changed chunks; ``recover`` must then undo it."""
        raise GraphError(f"Operator {self.name!r}: {type(self).__name__} has no backup() of its own.")

    def recover(self, table: pa.Table) -> None:
        """Fill the empty primitives from what ``backup`` returned."""
        raise GraphError(f"Operator {self.name!r}: {type(self).__name__} has backup() but no recover().")

    def mend(self) -> None:
        """Runs in a recovery that found chunks damaged: older ones stand in for them, or none, and may not fit others.

        Items that were kept are applied again after it, and the state that it leaves is backed up.
        """

    def recovered(self, loss: Loss) -> None:
        """Runs once after a recovery, before any tuple: the place to compensate for what was lost."""

    def sharding_hashes(self, name: str, keys: pa.Array) -> npt.NDArray[np.uint64] | None:
        """The hashes of the operator's key that keys of the state ``name`` stand for; None if they are that key."""
        return None

    def rescaled(self, before: Sequence[Any], *, shard: int, shards: int) -> None:
        """Runs once when shard ``shard`` of ``shards`` was made of others, ``before``, after its tables were filled.

        The place to fill in state that is neither by key nor added up; not to change what is.
        """

    def forget(self) -> None:
        """Drop everything it keeps, in mid-batch, as a crash does that takes its memory."""
        if self._memory is not None:
            self._memory.clear()

    def opened(self, shard: Shard | None, schemas: Mapping[str, pa.Schema]) -> Self:
        """A copy of this operator whose primitives work on ``shard``."""
        opened = copy.copy(self)
        opened.schemas = schemas
        state = self.state().items()
        bound = {name: primitive.bind(shard, name, operator=self.name) for name, primitive in state if shard}
        opened.opened_state, opened._memory = bound, shard
        for name, primitive in bound.items():
            # A Number on the class is a descriptor, which finds its handle in opened_state.
            if not hasattr(getattr(type(self), name, None), "__set__"):
                opened.__dict__[name] = primitive
        return opened


def _primitives(declared: Mapping[str, Any]) -> dict[str, Primitive]:
    return {name: value for name, value in declared.items() if isinstance(value, Primitive)}


def _array(value: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(value, pa.Array):
        return value if value.type == kind else value.cast(kind)
    if isinstance(value, pa.ChunkedArray):
        return value.combine_chunks().cast(kind)
    if isinstance(value, np.ndarray | list | tuple):
        return pa.array(value, kind)
    return pa.array([value], kind)
