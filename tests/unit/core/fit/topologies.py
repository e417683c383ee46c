# SPDX-License-Identifier: Apache-2.0
"""Topologies that are hard to decide: many devices at random places, needs together and apart."""

from collections.abc import Callable
from itertools import combinations
from random import Random
from typing import Any

from valence_sched.model.request import Request
from valence_sched.testing import request, view
from valence_sched.view.view import View

Constraints = list[dict[str, Any]]
Node = tuple[dict[str, Any], int, dict[str, int]]  # needs, NICs, values of each domain


def _node(groups: str, each: int, constraints: Constraints) -> dict[str, Any]:
    return {"nics": [{"name": name, "count": each} for name in groups], "topology": constraints}


def pairs_together(random: Random) -> Node:
    """Each pair on one switch, with its two NICs in two racks."""
    constraints = [{"of": [name], "same": "switch"} for name in "abcd"]
    constraints += [{"of": [name], "apart": "rack"} for name in "abcd"]
    return _node("abcd", 2, constraints), 48, {"switch": 12, "rack": 6}


def circle_apart(random: Random) -> Node:
    """Each pair on one switch, and neighbours in a ring in different racks."""
    constraints = [{"of": [name], "same": "switch"} for name in "abcd"]
    constraints += [{"of": list(two), "apart": "rack"} for two in ("ab", "bc", "cd", "da")]
    return _node("abcd", 2, constraints), 48, {"switch": 12, "rack": 6}


def chain_together(random: Random) -> Node:
    """Two switches each, all in one rack: one rack has enough, or none has."""
    constraints = [{"of": [name], "apart": "switch"} for name in "abcd"]
    constraints += [{"of": list(two), "same": "rack"} for two in ("ab", "bc", "cd", "da")]
    return _node("abcd", 2, constraints), 48, {"switch": 12, "rack": 6}


def three_apart(random: Random) -> Node:
    """Three of each of eight, each at a different place of one of three domains."""
    domains = {"switch": 12, "rack": 6, "root": 24}
    places = [*domains] * 3
    constraints = [
        {"of": [name], "apart": place} for name, place in zip("abcdefgh", places, strict=False)
    ]
    return _node("abcdefgh", 3, constraints), 48, domains


def clique(random: Random) -> Node:
    """Every two of four apart, in one of two domains."""
    places = ["switch", "rack"] * 3
    constraints = [{"of": list(two), "apart": place}
             for two, place in zip(combinations("abcd", 2), places, strict=True)]  # fmt: skip
    return _node("abcd", 3, constraints), 64, {"switch": 8, "rack": 8}


def too_few_values(random: Random) -> Node:
    """All eight apart on seven switches."""
    return _node("abcdefgh", 2, [{"of": list("abcdefgh"), "apart": "switch"}]), 64, {"switch": 7}


def three_domains(random: Random) -> Node:
    """All apart in three domains at the same time."""
    domains = {"switch": 8, "rack": 6, "root": 12}
    constraints = [{"of": list("abc"), "apart": place} for place in domains]
    return _node("abc", 2, constraints), 48, domains


def mixed(random: Random) -> Node:
    """Random constraints between five groups, in domains of few values."""
    domains = {place: random.choice([4, 6, 8, 12]) for place in ("switch", "rack", "root")}
    groups = [{"name": name, "count": random.randint(1, 3)} for name in "abcde"]
    constraints: Constraints = [
        {"of": random.sample("abcde", random.choice([2, 2, 3])), "apart": place}
        for place in ("switch", "rack", "switch", "rack", "root")
    ]
    constraints += [{"of": [random.choice("abcde")], "same": place} for place in ("root", "rack")]
    return {"nics": groups, "topology": constraints}, random.choice([24, 36, 48]), domains


TOPOLOGIES: dict[str, Callable[[Random], Node]] = {
    make.__name__: make
    for make in (pairs_together, circle_apart, chain_together, three_apart, clique, too_few_values,
                 three_domains, mixed)
}  # fmt: skip


def site(name: str, seed: int) -> tuple[View, Request]:
    """Return a pod manager of one pool, and a request to it."""
    random = Random(seed)
    asked, number, domains = TOPOLOGIES[name](random)
    blocks = [
        {
            "uri": f"n{n}",
            "places": {
                place: f"{place}{random.randrange(size)}" for place, size in domains.items()
            },
            "devices": {"nics": [{"speed_mbps": 25_000}]},
        }
        for n in range(number)
    ]
    return view({"id": "a", "blocks": blocks}), request(asked)
