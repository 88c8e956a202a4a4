"""Compose nets by the places they share.

`join` puts nets side by side, each under a prefix, and makes groups of their places one place; `replicate` joins copies
of one net. What comes out is an ordinary net: its places are named `prefix.place`, shared ones as the author says, and
its activities `prefix.activity`.

>>> from spillway.san import Exponential, Net, join, replicate
>>> machine = Net("machine")
>>> up, down = machine.place("up", tokens=1), machine.place("down")
>>> _ = machine.timed("fail", Exponential(0.1), inputs=[up], outputs=[down])
>>> hospital = Net("hospital")
>>> ward = hospital.place("ward")
>>> _ = hospital.timed("repair", Exponential(1.0), inputs=[ward])
>>> plant = join("plant", {"a": machine, "b": machine, "h": hospital}, shared={"ward": ["a.down", "b.down", "h.ward"]})
>>> sorted(plant.places), sorted(plant.activities)
(['a.up', 'b.up', 'ward'], ['a.fail', 'b.fail', 'h.repair'])
>>> sorted(replicate("pool", machine, 3, shared=["down"]).places)
['down', 'machine[0].up', 'machine[1].up', 'machine[2].up']
"""

from collections.abc import Mapping, Sequence

from spillway.errors import ModelError
from spillway.given import is_whole
from spillway.san.net import Net

COPIES_MAX = 10_000


def join(
    name: str, nets: Mapping[str, Net], *, shared: Mapping[str, Sequence[str]] = {}, may_stop: bool | None = None
) -> Net:
    """One net of several. `shared` maps the name of a place to the places, `prefix.place`, that are that one place.

    Places that become one must start with the same number of tokens. The net may stop if all of its parts may.
    """
    joined = Net(name, may_stop=all(net.may_stop for net in nets.values()) if may_stop is None else may_stop)
    tokens = {f"{prefix}.{place}": each.tokens for prefix, net in nets.items() for place, each in net.places.items()}
    renamed: dict[str, str] = {}
    for place, members in shared.items():
        if not members:
            raise ModelError(f"Join {name!r}: shared place {place!r} stands for no place.")
        for member in members:
            if member not in tokens:
                raise ModelError(
                    f"Join {name!r}: {member!r}, to be shared as {place!r}, is no place of the joined nets."
                )
            if member in renamed:
                raise ModelError(f"Join {name!r}: {member!r} is shared as {renamed[member]!r} and as {place!r}.")
            renamed[member] = place
        counts = {tokens[member] for member in members}
        if len(counts) > 1:
            raise ModelError(
                f"Join {name!r}: places shared as {place!r} start with different tokens: "
                f"{', '.join(f'{member} with {tokens[member]}' for member in members)}."
            )
        joined.place(place, counts.pop())
    for member, count in tokens.items():
        if member not in renamed:
            joined.place(member, count)
    for prefix, net in nets.items():
        if net.forwards:
            raise ModelError(f"Join {name!r}: net {net.name!r} declares a fast-forward; declare it on the joined net.")

        def rename(place: str, prefix: str = prefix) -> str:
            return renamed.get(f"{prefix}.{place}", f"{prefix}.{place}")

        for activity in net.activities.values():
            joined.add(activity.renamed(f"{prefix}.{activity.name}", rename))
    return joined


def replicate(name: str, net: Net, copies: int, *, shared: Sequence[str] = ()) -> Net:
    """So many copies of a net, `net[0]`, `net[1]`, …, that have the places named in `shared` in common."""
    if not is_whole(copies, least=1, most=COPIES_MAX):
        raise ModelError(f"Replicate {name!r}: from 1 to {COPIES_MAX} copies are wanted; got {copies!r}.")
    prefixes = [f"{net.name}[{i}]" for i in range(copies)]
    groups = {place: [f"{prefix}.{place}" for prefix in prefixes] for place in shared}
    return join(name, dict.fromkeys(prefixes, net), shared=groups)
