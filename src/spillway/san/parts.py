"""What a net is made of: arcs, gates, cases, activities. Frozen data; places are named, never pointed at."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from spillway.errors import ModelError
from spillway.given import is_whole
from spillway.san.distributions import Distribution
from spillway.san.expressions import Binary, Constant, Expression, Number, Tokens, expression

TOKENS_MAX = 2**53  # beyond it the arithmetic of expressions is no longer exact
Rename = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Place(Tokens):
    """A place and the tokens it starts with. In an expression it stands for its tokens."""

    tokens: int
    rarely: bool = False  # whether it changes so rarely that what reads only such places is worth keeping (`derived`)

    def set(self, to: Number) -> "Assignment":
        """For a gate: the place now holds so many tokens."""
        return Assignment(place=self.name, to=expression(to))

    def add(self, more: Number) -> "Assignment":
        """For a gate: the place holds so many tokens more (fewer, if negative)."""
        return Assignment(place=self.name, to=Binary(sign="+", left=self, right=expression(more)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Assignment:
    """A place gets the value of an expression, which must be a whole number of 0 or more when it runs."""

    place: str
    to: Expression

    def renamed(self, rename: Rename) -> "Assignment":
        return Assignment(place=rename(self.place), to=self.to.renamed(rename))

    def __str__(self) -> str:
        return f"{self.place} = {self.to}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arc:
    """So many tokens taken from, or put to, a place."""

    place: str
    tokens: int = 1

    def __post_init__(self) -> None:
        if not is_whole(self.tokens, least=1, most=TOKENS_MAX):
            raise ModelError(
                f"An arc moves a whole number of tokens, 1 or more; got {self.tokens!r} at {self.place!r}."
            )

    def renamed(self, rename: Rename) -> "Arc":
        return Arc(place=rename(self.place), tokens=self.tokens)


@dataclass(frozen=True, slots=True, eq=False)
class InputGate:
    """Enables an activity while `when` holds; at its completion the assignments of `does` run in order."""

    when: Number = 1
    does: Sequence[Assignment] = ()
    name: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "when", expression(self.when))
        object.__setattr__(self, "does", _assignments(self.does))

    @property
    def predicate(self) -> Expression:
        return expression(self.when)

    def renamed(self, rename: Rename) -> "InputGate":
        return InputGate(self.predicate.renamed(rename), [each.renamed(rename) for each in self.does], name=self.name)


@dataclass(frozen=True, slots=True, eq=False)
class OutputGate:
    """At the completion of an activity the assignments run in order, each seeing what those before it did."""

    does: Sequence[Assignment]
    name: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "does", _assignments(self.does))

    def renamed(self, rename: Rename) -> "OutputGate":
        return OutputGate([each.renamed(rename) for each in self.does], name=self.name)


# What an author may write: a place is an arc of one token, a pair an arc of several, an expression a predicate,
# an assignment a gate of one.
Input = Place | tuple[Place, int] | Expression | InputGate
Output = Place | tuple[Place, int] | Assignment | OutputGate


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One of the outcomes of an activity. Its probability is seen in the marking in which the activity completes."""

    probability: Number
    outputs: Sequence[Output] = ()

    @property
    def chance(self) -> Expression:
        return expression(self.probability)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """A case as the net keeps it: outputs in the order in which they take effect."""

    chance: Expression
    outputs: tuple[Arc | OutputGate, ...]

    def renamed(self, rename: Rename) -> "Outcome":
        return Outcome(chance=self.chance.renamed(rename), outputs=tuple(each.renamed(rename) for each in self.outputs))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Activity:
    """Something that happens: timed if it has a distribution, instantaneous if not."""

    name: str
    distribution: Distribution | None
    priority: int = 0
    weight: float = 1.0
    arcs: tuple[Arc, ...]
    gates: tuple[InputGate, ...]
    outcomes: tuple[Outcome, ...]
    reactivate_when: Expression | None = None
    reactivate_on: tuple[str, ...] = ()

    @property
    def timed(self) -> bool:
        return self.distribution is not None

    def enabling(self) -> set[str]:
        """The places that decide whether it is enabled."""
        return {arc.place for arc in self.arcs} | {place for gate in self.gates for place in gate.predicate.places()}

    def reads(self) -> set[str]:
        """The places whose change may enable it, disable it, change its rate or reactivate it."""
        places = self.enabling() | set(self.reactivate_on)
        if self.distribution is not None:
            places |= {place for parameter in self.distribution.parameters() for place in parameter.places()}
        if self.reactivate_when is not None:
            places |= set(self.reactivate_when.places())
        return places

    def writes(self, case: int) -> set[str]:
        """The places that its completion in a case may change."""
        places = {arc.place for arc in self.arcs} | {each.place for gate in self.gates for each in gate.does}
        for output in self.outcomes[case].outputs:
            places |= {output.place} if isinstance(output, Arc) else {each.place for each in output.does}
        return places

    def mentions(self) -> Iterator[str]:
        """Every place it names anywhere."""
        yield from self.reads()
        for assignment in self.assignments():
            yield from assignment.to.places()
        for case, outcome in enumerate(self.outcomes):
            yield from self.writes(case)
            yield from outcome.chance.places()

    def assignments(self) -> Iterator[Assignment]:
        """Those of all its gates."""
        for gate in self.gates:
            yield from gate.does
        for outcome in self.outcomes:
            for output in outcome.outputs:
                if isinstance(output, OutputGate):
                    yield from output.does

    def renamed(self, name: str, rename: Rename) -> "Activity":
        """The same activity under another name, on places of other names."""
        return replace(
            self,
            name=name,
            distribution=None if self.distribution is None else self.distribution.renamed(rename),
            arcs=tuple(arc.renamed(rename) for arc in self.arcs),
            gates=tuple(gate.renamed(rename) for gate in self.gates),
            outcomes=tuple(outcome.renamed(rename) for outcome in self.outcomes),
            reactivate_when=None if self.reactivate_when is None else self.reactivate_when.renamed(rename),
            reactivate_on=tuple(map(rename, self.reactivate_on)),
        )


def parted(inputs: Sequence[Input]) -> tuple[tuple[Arc, ...], tuple[InputGate, ...]]:
    """Arcs and gates of what an author listed as inputs."""
    arcs: dict[str, Arc] = {}
    gates: list[InputGate] = []
    for given in inputs:
        if isinstance(given, InputGate):
            gates.append(given)
        elif isinstance(given, Place | tuple):
            arc = _arc(given)
            # Two arcs from one place are one arc that takes the tokens of both.
            before = arcs[arc.place].tokens if arc.place in arcs else 0
            arcs[arc.place] = Arc(place=arc.place, tokens=before + arc.tokens)
        else:
            gates.append(InputGate(expression(given)))
    return tuple(arcs.values()), tuple(gates)


def outcome(case: Case) -> Outcome:
    """A case as an author wrote it, made ready to keep."""
    chance = case.chance
    if isinstance(chance, Constant) and not 0 <= chance.number <= 1:
        raise ModelError(f"A probability lies between 0 and 1; got {chance.number:g}.")
    outputs: list[Arc | OutputGate] = []
    for given in case.outputs:
        if isinstance(given, OutputGate):
            outputs.append(given)
        elif isinstance(given, Assignment):
            outputs.append(OutputGate([given]))
        else:
            outputs.append(_arc(given))
    return Outcome(chance=chance, outputs=tuple(outputs))


def _arc(given: object) -> Arc:
    match given:
        case Place(name=name):
            return Arc(place=name)
        case (Place(name=name), int(tokens)):
            return Arc(place=name, tokens=tokens)
    raise ModelError(f"A place, or a pair of a place and a number of tokens, is wanted; got {given!r}.")


def _assignments(given: Sequence[Assignment]) -> tuple[Assignment, ...]:
    for each in given:
        if not isinstance(each, Assignment):
            raise ModelError(f"A gate does assignments, such as place.set(0) or place.add(1); got {each!r}.")
    return tuple(given)
