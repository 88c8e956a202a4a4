"""What of Spark's own plans is reached from Python: the few calls by which a query is taken apart and put together.

Nothing here is compiled, and nothing is public in Spark either: all of it was tried with the version in the lock, and
every call that another version might lack is in this file.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

WATERMARK_DELAY = "spark.watermarkDelayMs"
"""What the metadata of a column has that a watermark is about: how late rows may be."""


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

    def nothing_like(self, frame: DataFrame) -> DataFrame:
        """A stream of the same columns that never has a row."""
        columns = self.sequence([one.newInstance() for one in each(self.analyzed(frame).output())])
        relation = self._catalyst.plans.logical.LocalRelation
        return self.frame(relation(columns, self._none, True, self._nothing))

    def column(self, expression: Any) -> Column:
        """A column of an expression."""
        return Column(_module(self._jvm.org.apache.spark.sql.classic, "ExpressionUtils").column(expression))

    def beside(self, aside: DataFrame, frame: DataFrame) -> DataFrame:
        """The DataFrame, with a plan in its own that is never run."""
        plans = self.sequence([self.analyzed(aside), self.analyzed(frame)])
        return self.frame(self._catalyst.plans.logical.MultiResult(plans))

    def constant(self, value: Any, kind: str) -> Column:
        """A column of this very object, of a type in SQL's words: whoever changes it changes the column."""
        return self.column(self._catalyst.expressions.Literal(value, self._type(kind)))

    def replaced(self, plan: Any) -> Any:
        """The plan with functions that stand for others replaced by these, as the optimiser does first."""
        return _module(self._catalyst.optimizer, "ReplaceExpressions").apply(plan)

    def grouped(self, distinct: Any) -> Any:
        """SELECT DISTINCT as the aggregation that the optimiser makes of it."""
        return _module(self._catalyst.optimizer, "ReplaceDistinctWithAggregate").apply(distinct)

    def aggregation(self, aggregate: Any) -> tuple[list[Any], list[Any], list[Any], Any]:
        """Grouping expressions, aggregates (each once), results in terms of these, and what lies below."""
        found = _module(self._catalyst.planning, "PhysicalAggregation").unapply(aggregate).get()
        return [*each(found._1())], [*each(found._2())], [*each(found._3())], found._4()

    def leading_zeros(self, column: Column) -> Column:
        """With how many zeros a 64-bit integer begins."""
        java_long = self._jvm.java.lang.Class.forName("java.lang.Long")
        return self.column(
            self._catalyst.expressions.objects.StaticInvoke(
                java_long,
                self._type("integer"),
                "numberOfLeadingZeros",
                self.sequence([self._expression(column)]),
                self._none,
                True,
                True,
                True,
                self._nothing,
            )
        )

    def sketch(self, relative_error: float) -> Any:
        """Spark's own sketch of how many different values there are, of this relative error."""
        return self._catalyst.util.HyperLogLogPlusPlusHelper(float(relative_error))

    def estimate(self, sketch: Any, words: Column) -> Column:
        """What Spark estimates from the words of such a sketch, a struct of them."""
        expressions = self._catalyst.expressions
        literal = _module(expressions, "Literal")
        kind = self._jvm.org.apache.spark.sql.types.ObjectType(sketch.getClass())
        return self.column(
            expressions.objects.Invoke(
                literal.fromObject(sketch, kind),
                "query",
                self._type("bigint"),
                self.sequence([self._expression(words), self._expression(sql.lit(0))]),
                self._none,
                True,
                False,
                True,
            )
        )

    def _expression(self, column: Column) -> Any:
        return _module(self._jvm.org.apache.spark.sql.classic, "ExpressionUtils").expression(column._jc)

    def _type(self, name: str) -> Any:
        return self._jvm.org.apache.spark.sql.types.DataType.fromDDL(name)

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
