# SPDX-License-Identifier: Apache-2.0
"""Test helpers for plug-ins: small views and requests, and the contract of plug-ins."""

import itertools
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from valence_sched.model.codec import decode
from valence_sched.model.flavor import Flavor
from valence_sched.model.inventory import LeanPodm
from valence_sched.model.request import Request, sealed
from valence_sched.testing import contract
from valence_sched.view.builder import ViewBuilder
from valence_sched.view.view import View


def view(*podms: dict[str, Any]) -> View:
    """Return a View of pod managers in the inventory's JSON form; InputError if one is invalid."""
    builder = ViewBuilder()
    for number, podm in enumerate(podms):
        path = f"$.podms[{number}]"
        decoded = decode(msgspec.json.encode(podm), LeanPodm, "testing", path)
        builder.add(decoded, "testing", path)
    return builder.view()


def request(properties: dict[str, Any], **fields: Any) -> Request:
    """Return a request for a node of these flavor properties; ``fields`` are its other fields.

    ``first_of`` and a plain list of ``aggregates`` may be given as in a flavor.
    """
    template = {"name": "test", "properties": properties}
    template |= {name: fields.pop(name) for name in ("first_of", "aggregates") if name in fields}
    flavor = msgspec.convert(template, Flavor, strict=False)
    first, *others = flavor.alternatives
    compiled: dict[str, Any] = {"needs": first.needs, "topology": first.topology}
    compiled |= {"other_alternatives": others, "aggregates": flavor.aggregate_names}
    return sealed(msgspec.convert({**fields, **msgspec.to_builtins(compiled)}, Request))


def check_filter(function: Callable[..., Any], **options: Any) -> None:
    """Check that a filter keeps the contract of filters, with these options.

    The filter returns one bool per pool, answers each row independently of the others, gives the
    same answer again, and changes nothing.

    Raises:
        AssertionError: the filter breaks the contract; the message names the violation.
    """
    contract.check_signature(function)
    contract.check_answers(function, options, _scenes(), contract.check_mask)


def check_weigher(function: Callable[..., Any], **options: Any) -> None:
    """Check that a weigher keeps the contract: as a filter, with floats of 0..1, never NaN."""
    contract.check_signature(function)
    contract.check_answers(function, options, _scenes(), contract.check_scores)


def _scenes() -> list[contract.Scene]:
    requests = [request(properties, **fields) for properties, fields in contract.REQUESTS]
    requests += [
        replace(one, needs=tuple(replace(need, unknown="allow") for need in one.needs))
        for one in requests
    ]
    sets = ([contract.PODMS[number] for number in numbers] for numbers in contract.PODM_SETS)
    return [*itertools.product([view(*podms) for podms in sets], requests)]
