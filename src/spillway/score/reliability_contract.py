"""Whether an output kept its contract."""

from dataclasses import dataclass

from spillway.graph.contracts import Contract
from spillway.score.reliability import Reliability


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What became of a contract: broken in these ways, and what could not be told, a sentence each."""

    broken: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def held(self) -> bool | None:
        """Whether it was kept; None if nothing is known to be broken, and not everything is known."""
        return False if self.broken else None if self.unknown else True


def kept(contract: Contract, found: Reliability) -> Kept:
    """Whether a contract was kept, by what a comparison of the golden and the real output found.

    >>> import pyarrow as pa
    >>> from spillway.score.reliability_tables import compare
    >>> golden, real = pa.table({"seq": [1, 2, 3, 4]}), pa.table({"seq": [1, 2, 4]})
    >>> kept(Contract(lossless=True), compare(golden, real)).broken
    ('Not lossless: of 4 tuples 1 is lost, and 0 are there that should not be.',)
    """
    broken, unknown = [], []
    if contract.lossless and not found.lossless:
        lost = f"{found.lost_tuples:,} {'is' if found.lost_tuples == 1 else 'are'} lost"
        broken.append(
            f"Not lossless: of {found.ideal_tuples:,} tuples {lost}, and {found.wrong_tuples:,} "
            f"{'is' if found.wrong_tuples == 1 else 'are'} there that should not be."
        )
    if contract.delay_max is not None:
        most_s = contract.delay_max.total_seconds()
        if not found.timed:
            unknown.append("How late tuples came is not known: no column tells when they did.")
        elif found.untimed_tuples:
            broken.append(f"{found.untimed_tuples:,} correct tuples lack a time, so nothing bounds their delay.")
        elif found.early_tuples:
            broken.append(f"{found.early_tuples:,} correct tuples came before their time.")
        elif (found.delay_tightest_s or 0.0) > most_s:
            broken.append(f"The latest correct tuple came {found.delay_tightest_s:g} s late; {most_s:g} s are allowed.")
    if contract.order is not None:
        ordered = found.ordered_in_stream if contract.order == "stream" else found.ordered_between
        if ordered is None:
            unknown.append("In which order tuples came is not known: no column tells when they did.")
        elif not ordered:
            where = "between streams" if found.ordered_in_stream else "in a stream"
            broken.append(f"Correct tuples are out of order {where}.")
    return Kept(broken=tuple(broken), unknown=tuple(unknown))
