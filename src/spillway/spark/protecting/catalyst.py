"""What of Spark's own plans is reached from Python: the few calls by which a query is taken apart and put together.

Nothing here is compiled, and nothing is public in Spark either: all of it was tried with the version in the lock, and
every call that another version might lack is in this file.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession


class Catalyst:
    """Spark's own classes, of one session."""

    def __init__(self, session: SparkSession) -> None:
        self.session: Any = session
        jvm: Any = session.sparkContext._jvm
        self._jvm = jvm
        self._catalyst: Any = self._jvm.org.apache.spark.sql.catalyst
        self._alias = self._catalyst.expressions.Alias
        self._project = self._catalyst.plans.logical.Project
        self._none, self._nothing = self.sequence([]), self._jvm.scala.Option.empty()

    def analyzed(self, frame: DataFrame) -> Any:
        """The plan of a DataFrame, with every name resolved."""
        return frame._jdf.queryExecution().analyzed()

    def frame(self, plan: Any) -> DataFrame:
        """A DataFrame of a plan."""
        made = _module(self._jvm.org.apache.spark.sql.classic, "Dataset").ofRows(self.session._jsparkSession, plan)
        return DataFrame(made, self.session)

    def column(self, expression: Any) -> Column:
        """A column of an expression."""
        return Column(_module(self._jvm.org.apache.spark.sql.classic, "ExpressionUtils").column(expression))

    def replaced(self, plan: Any) -> Any:
        """The plan with functions that stand for others replaced by these, as the optimiser does first."""
        return _module(self._catalyst.optimizer, "ReplaceExpressions").apply(plan)

    def aggregation(self, aggregate: Any) -> tuple[list[Any], list[Any], list[Any], Any]:
        """Grouping expressions, aggregates (each once), results in terms of these, and what lies below."""
        found = _module(self._catalyst.planning, "PhysicalAggregation").unapply(aggregate).get()
        return [*each(found._1())], [*each(found._2())], [*each(found._3())], found._4()

    def named(self, attribute: Any) -> "Named":
        """What makes an expression that very attribute."""
        return Named(name=attribute.name(), number=attribute.exprId())

    def renamed(self, expression: Any, named: "Named") -> Any:
        """The expression as that very attribute: others refer to it by its number."""
        return self._alias(expression, named.name, named.number, self._none, self._nothing, self._none)

    def project(self, expressions: Any, below: Any) -> Any:
        """The plan node that computes these, a sequence of Scala's."""
        return self._project(expressions, below)

    def on(self, node: Any, below: Any) -> Any:
        """A copy of a plan node, on another one."""
        return node.withNewChildren(self.sequence([below]))

    def sequence(self, items: Sequence[Any]) -> Any:
        return self._jvm.PythonUtils.toSeq(list(items))


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The name and number of an attribute."""

    name: str
    number: Any


def kind_of(node: Any) -> str:
    """The name of its class."""
    return str(node.getClass().getSimpleName())


def each(sequence: Any) -> Iterator[Any]:
    """The elements of a sequence of Scala's."""
    for place in range(sequence.size()):
        yield sequence.apply(place)


def below(plan: Any, visit: Callable[[Any], object]) -> None:
    """Show every node of a plan, from above."""
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        visit(node)
        waiting.extend(each(node.children()))


def _module(package: Any, name: str) -> Any:
    """A singleton of Scala's."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")
