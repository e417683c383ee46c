# SPDX-License-Identifier: Apache-2.0
"""Podm reads: the fields of pod managers that decisions of a policy read, by what is declared."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from valence_sched.core import plugins
from valence_sched.core.policy import bind, idle_readers, without_readers
from valence_sched.model.custom_resource import CustomResource
from valence_sched.model.policy import Policy
from valence_sched.model.request import Request
from valence_sched.view.podm_fields import podm_fields

#: Fields that hold others: who reads them all reads each.
MAPS = ("facts", "capabilities")


def fields_read(
    policy: Policy, request: Request | None = None, resources: Iterable[CustomResource] = ()
) -> tuple[str, ...]:
    """Return the fields that a policy reads to decide on a request, without one on any request.

    ``resources`` are declared by the operator: facts may tell how much of them there is. Pools,
    blocks and stocks are always read. Errors as to bind the policy.
    """
    bound = bind(policy)
    if request is not None:
        bound = without_readers(bound, idle_readers(request, bound))
    scheduler = plugins.load(plugins.SCHEDULERS).get(policy.scheduler)
    found = {*podm_fields(scheduler, {}, request), *_resource_fields(resources)}
    if request is None or request.podms or request.exclude_podms:
        found.add("name")  # pod managers are named by it, whether a filter reads it or not
    for use in bound.plugins:
        function, options = _called(use.evaluate)
        found.update(podm_fields(function, options, request))
    for weigher in bound.weighers:
        found.update(["zone"] if weigher.overrides.zone else [])
        found.update(["aggregates"] if weigher.overrides.aggregate else [])
    return tuple(sorted(one for one in found if one.partition(".")[0] not in found & {*MAPS}
                        or one in MAPS))  # fmt: skip


def _called(evaluate: Any) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Return the function of a bound plug-in and its options, the defaults included."""
    function = evaluate.func
    parameters = inspect.signature(function).parameters.values()
    defaults = {one.name: one.default for one in parameters if one.kind is one.KEYWORD_ONLY}
    return function, defaults | evaluate.keywords


def _resource_fields(resources: Iterable[CustomResource]) -> Iterator[str]:
    for resource in resources:
        yield from (f"facts.{fact}" for fact in (resource.fact, resource.used_fact) if fact)
        if resource.podms:
            yield "name"
