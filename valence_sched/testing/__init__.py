# SPDX-License-Identifier: Apache-2.0
"""Test helpers for plug-ins: small views and requests, and the contract of plug-ins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from valence_sched.model.codec import decode
from valence_sched.model.flavor import Flavor
from valence_sched.model.inventory import LeanPodm
from valence_sched.model.request import Request, sealed
from valence_sched.testing import contract, scenes
from valence_sched.view.builder import ViewBuilder
from valence_sched.view.view import View


def view(*podms: dict[str, Any]) -> View:
    """Return a View of pod managers in the inventory's JSON form.

    Raises:
        InputError: a podm is not what the inventory's schema asks for.
    """
    builder = ViewBuilder()
    for number, podm in enumerate(podms):
        place = f"$.podms[{number}]"
        builder.add(decode(msgspec.json.encode(podm), LeanPodm, "testing", place), "testing", place)
    return builder.view()


def request(properties: dict[str, Any], **words: Any) -> Request:
    """Return a request for a node of these flavor properties; ``words`` are its other fields.

    ``first_of`` and a plain list of ``aggregates`` may be given as in a flavor.
    """
    template = {"name": "test", "properties": properties}
    template |= {word: words.pop(word) for word in ("first_of", "aggregates") if word in words}
    flavor = msgspec.convert(template, Flavor, strict=False)
    first, *others = flavor.alternatives
    compiled = {
        "needs": first.needs,
        "bonds": first.bonds,
        "fallbacks": others,
        "aggregates": flavor.aggregate_names,
    }
    return sealed(msgspec.convert({**words, **msgspec.to_builtins(compiled)}, Request))


def check_filter(function: Callable[..., Any], **options: Any) -> None:
    """Check that a filter keeps the contract of filters, with these options.

    It returns a bool a pool, answers each row by itself and the same when asked again, and
    writes to nothing.

    Raises:
        AssertionError: it does not; the message names what broke.
    """
    contract.check_signature(function)
    contract.check_answers(function, options, _scenes(), contract.check_mask)


def check_weigher(function: Callable[..., Any], **options: Any) -> None:
    """Check that a weigher keeps the contract of weighers, with these options.

    It returns a float within 0..1 a pool, never NaN, answers each row by itself and the same
    when asked again, and writes to nothing.

    Raises:
        AssertionError: it does not; the message names what broke.
    """
    contract.check_signature(function)
    contract.check_answers(function, options, _scenes(), contract.check_scores)


def _scenes() -> list[contract.Scene]:
    """Return views and requests that between them hold every case a plug-in may meet."""
    asked = [request(properties, **words) for properties, words in scenes.REQUESTS]
    asked += [_allow_unknown(one) for one in asked]
    return [
        (view(*(scenes.PODMS[number] for number in company)), one)
        for company in scenes.PODM_SETS
        for one in asked
    ]


def _allow_unknown(one: Request) -> Request:
    needs = tuple(msgspec.structs.replace(need, unknown="allow") for need in one.needs)
    return msgspec.structs.replace(one, needs=needs)
