"""Numbers whose items were handed out or were about to be when the receiver died, and are not durable.

Whether they are lost is for Spark to say. If it goes on after them, it had them; if it asks for them again, they are
lost, each counted once however often it asks.

>>> in_doubt = InDoubt([(11, 20)])
>>> in_doubt.settle(13)        # a commit: these were processed
>>> in_doubt.asked(10, 15), in_doubt.asked(10, 15), in_doubt.asked(14, 20)
(2, 0, 5)
"""


class InDoubt:
    """Spans of numbers, first and last, less those whose fate is known."""

    def __init__(self, spans: list[tuple[int, int]]) -> None:
        self._spans = [(first, last) for first, last in spans if first <= last]

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        return tuple(self._spans)

    @property
    def count(self) -> int:
        return sum(last - first + 1 for first, last in self._spans)

    def settle(self, upto: int) -> None:
        """Everything up to here was processed."""
        self._spans = [(max(first, upto + 1), last) for first, last in self._spans if last > upto]

    def asked(self, after: int, upto: int) -> int:
        """Numbers with after < number <= upto were asked for; returns how many of them are thereby known lost."""
        before = self.count
        left = []
        for first, last in self._spans:
            left += [(first, min(last, after)), (max(first, upto + 1), last)]
        self._spans = [(first, last) for first, last in left if first <= last]
        return before - self.count
