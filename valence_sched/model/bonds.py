# SPDX-License-Identifier: Apache-2.0
"""What the bonds of a request may say, checked against its needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from valence_sched.errors import nearest
from valence_sched.model.need import Ask, Bond, Need

MAX_BONDS = 8  # the exact fit looks at every combination of their places


def fault(ask: Ask) -> str | None:
    """Return what is wrong with the bonds of a request, None when nothing is."""
    if len(ask.bonds) > MAX_BONDS:
        return f"{len(ask.bonds)} bonds, at most {MAX_BONDS}: merge some"
    if not ask.bonds:
        return None
    named: dict[str, list[Need]] = {}
    for need in ask.needs:
        named.setdefault(need.name or need.kind, []).append(need)
    faults = (_fault(bond, named) for bond in ask.bonds)
    return next(filter(None, faults), None) or _contrary(ask.bonds, named)


def _fault(bond: Bond, named: dict[str, list[Need]]) -> str | None:
    where = f"bond {bond.relation} {bond.place or '?'} of {', '.join(bond.of) or 'nothing'}"
    if not bond.place or not bond.of:
        return f"{where}: name a place, such as pcie_root, and what is to stand there"
    bindable = [name for name, needs in named.items() if needs[0].kind != "stock"]
    for name in bond.of:
        if name not in named:
            return f"{where}: nothing asked for is named {name!r} ({nearest(name, bindable)})"
        if name not in bindable:
            return f"{where}: {name!r} is an amount, which stands nowhere: bind devices"
        if len({need.kind for need in named[name]}) > 1:
            return f"{where}: {name!r} names devices of several kinds: give each a name of its own"
    if bond.relation == "apart":
        return _apart_fault(bond, where, named[bond.of[0]])
    return None


def _contrary(bonds: Sequence[Bond], named: Mapping[str, Sequence[Need]]) -> str | None:
    """Return which bonds hold devices together and apart at one place."""
    for apart in bonds:
        for same in bonds:
            if (same.relation, apart.relation, apart.place) != ("same", "apart", same.place):
                continue
            both = [name for name in dict.fromkeys(apart.of) if name in same.of]
            alone = len(set(apart.of)) == 1
            if len(both) > 1 or (alone and both and _several(named[both[0]])):
                return (f"bonds same and apart {apart.place} of {', '.join(both)}: devices cannot "
                        "stand at one place and each at its own: leave one out")  # fmt: skip
    return None


def _several(needs: Sequence[Need]) -> bool:
    """Return whether needs ask for more than one device."""
    return sum(need.amount for need in needs) > 1


def _apart_fault(bond: Bond, where: str, first: Sequence[Need]) -> str | None:
    several = len(set(bond.of)) > 1
    if not several and any(need.measure != "devices" for need in first):
        return f"{where}: a total cannot stand apart from itself: name what it is to be apart from"
    if bond.place == "zone" and (several or _several(first)):
        return f"{where}: all devices of a node stand in one zone: choose a smaller place"
    return None
