"""What a batch of a topic reads, and how its tuples are numbered.

Theory. Kafka numbers the records of each partition by *offsets*; between partitions there is no order. A batch is a
range of offsets of every partition, in the order of partitions, and its tuples are numbered through, behind those of
the batch before: a record at offset ``o`` of a range ``[begin, end)`` has the number

    first + (o - begin),    first = all offsets of earlier batches + those of earlier partitions in this one

times the most tuples that a record may hold. Offsets without a record (compacted, or markers of transactions) leave a
gap. So numbers ascend strictly whatever comes to which partition, and they follow from nothing but where a batch begins
and ends. That is all a *place* says, and all that has to be remembered: Spark notes it of every batch before it is run,
so a batch that is run again has the same records under the same numbers, and a run that goes back to the end of a batch
goes on with the record behind it.

A place also says where partitions begin that it has and the place before it has not: all of them in the first batch,
later those that were added to the topic. Then nothing is asked twice of a server that may answer otherwise the second
time: its first offset moves on while records expire.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spillway.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRange:
    """Records of one partition that one task reads: those with begin <= offset < end."""

    number: int  # among the ranges of its batch
    partition: int
    begin: int
    end: int
    first: int  # how many offsets come before its first one, in all batches and partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a server has of a partition: offsets from ``begin`` on, before ``end``."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """How far a topic was read."""

    count: int = 0  # offsets in all
    ends: Mapping[int, int] = field(default_factory=dict)  # by partition
    begins: Mapping[int, int] = field(default_factory=dict)  # of partitions that the place before has not

    def as_json(self) -> dict[str, Any]:
        """As Spark notes it.

        >>> Place.of(Place(count=5, ends={0: 5}).as_json())
        Place(count=5, ends={0: 5}, begins={})
        """
        return {"count": self.count, "ends": _named(self.ends), "begins": _named(self.begins)}

    @staticmethod
    def of(noted: Mapping[str, Any]) -> "Place":
        ends, begins = _numbered(noted["ends"]), _numbered(noted["begins"])
        return Place(count=int(noted["count"]), ends=ends, begins=begins)


def shared(backlogs: Mapping[int, int], most: int) -> dict[int, int]:
    """How much of each backlog to take, at most so much in all: the same of each, and more where others have less.

    >>> shared({0: 100, 1: 3, 2: 40}, 50)
    {1: 3, 2: 23, 0: 24}
    >>> shared({0: 100, 1: 3}, 1_000)
    {1: 3, 0: 100}
    """
    taken: dict[int, int] = {}
    for left, (backlog, partition) in enumerate(sorted((size, each) for each, size in backlogs.items())):
        taken[partition] = min(backlog, most // (len(backlogs) - left))
        most -= taken[partition]
    return taken


def next_place(
    start: Place,
    held: Mapping[int, Held],
    *,
    most: int | None,
    from_end: bool = False,
    skips: bool = False,
    upto: Mapping[int, int] | None = None,
    topic: str,
) -> Place:
    """Where the batch behind ``start`` ends: at most so many records further.

    ``from_end`` begins the first batch of all behind what is there; ``skips`` goes on where records have expired;
    ``upto`` reads no further, and no other partitions.
    """
    check_held(start, held, skips=skips, topic=topic)
    begins = {
        partition: there.end if from_end and not start.ends else there.begin
        for partition, there in sorted(held.items())
        if partition not in start.ends and (upto is None or partition in upto)
    }
    backlogs: dict[int, int] = {}
    # What has expired is no backlog: who reads the range passes over it and counts it.
    reached = {partition: max(at, held[partition].begin) for partition, at in (dict(start.ends) | begins).items()}
    for partition, at in reached.items():
        end = held[partition].end if upto is None else min(held[partition].end, upto.get(partition, 0))
        backlogs[partition] = max(0, end - at)
    taken = backlogs if most is None else shared(backlogs, most)
    ends = {
        # A partition of which nothing is read stays where it is, so that a batch without records is no batch.
        partition: reached[partition] + taken[partition] if taken[partition] else at
        for partition, at in sorted((dict(start.ends) | begins).items())
    }
    made = sum(end - start.ends.get(partition, begins.get(partition, 0)) for partition, end in ends.items())
    if ends == dict(start.ends):
        return start
    return Place(count=start.count + made, ends=ends, begins=begins)


def ranges(start: Place, end: Place) -> list[TopicRange]:
    """What tasks read of the batch between two places, in the order of its numbers."""
    found: list[TopicRange] = []
    first = start.count
    for partition, upto in sorted(end.ends.items()):
        begin = start.ends[partition] if partition in start.ends else end.begins[partition]
        if upto > begin:
            found.append(TopicRange(number=len(found), partition=partition, begin=begin, end=upto, first=first))
            first += upto - begin
    assert first == end.count, f"{start} to {end}"
    return found


def check_held(start: Place, held: Mapping[int, Held], *, skips: bool, topic: str) -> None:
    """Refuse a topic that is not the one that was read, or no longer has what was to be read next."""
    for partition, at in start.ends.items():
        there = held.get(partition)
        if there is None or there.end < at:
            now = "is gone" if there is None else f"ends at offset {there.end:,}"
            raise InputError(
                f"kafka: partition {partition} of topic {topic!r} was read up to offset {at:,}, and {now}: the topic "
                f"was made anew. Begin anew, too, with another checkpoint."
            )
        if there.begin > at and not skips:
            raise expired(topic, partition, at, there.begin)


def expired(topic: str, partition: int, at: int, begin: int) -> InputError:
    return InputError(
        f"kafka: {begin - at:,} records of partition {partition} of topic {topic!r} have expired before they were "
        f"read, from offset {at:,} on; the first that is there is {begin:,}. Say expired='skip' to go on with that and "
        f"count them, or have the topic keep records for longer."
    )


def _named(of: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): of[partition] for partition in sorted(of)}


def _numbered(of: Mapping[str, Any]) -> dict[int, int]:
    return {int(partition): int(at) for partition, at in of.items()}
