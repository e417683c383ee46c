# SPDX-License-Identifier: Apache-2.0
"""The handler of a verb: what a call says becomes its arguments, and what it returns the answer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from valence_sched.model.scheduler import Scheduler
from valence_sched.model.verbs import Route
from valence_sched.model.zoned_list import SILENT_HEADER, silent_header, silent_zones
from valence_sched.service.call import Call, CallResult

FLAGS = ("free", "live", "ended")  # words of a query that are true or false


def verb_handler(route: Route) -> Callable[[Call], CallResult]:
    """Return what answers a route by its verb, with the arguments that a call has."""
    parameters = list(inspect.signature(getattr(Scheduler, route.verb)).parameters.values())[1:]
    named = parameters.pop(0) if "{name}" in route.path else None
    several = named is not None and str(named.annotation).startswith("Sequence")
    names = [one.name for one in parameters if one.name != "password"]

    def handle(call: Call) -> CallResult:
        words: list[Any] = [] if named is None else [[call.name()] if several else call.name()]
        schedulers = call.reading() if route.reading else call.parts.schedulers.changing()
        with schedulers as scheduler:
            arguments = {name: _argument(route, call, scheduler, name) for name in names}
            found = getattr(scheduler, route.verb)(*words, **arguments)
            for error in found if several else ():
                raise error
            if several:
                found = None
            return listed_result(found) if route.lists else CallResult(found, route.status)

    return handle


def listed_result(found: Sequence[object] | Iterator[object]) -> CallResult:
    """Return a list as an answer, with a header that names the zones that it lacks."""
    silent = silent_zones(found)
    headers = {SILENT_HEADER: silent_header(silent)} if silent else {}
    return CallResult(tuple(found), headers=headers)


def _argument(route: Route, call: Call, scheduler: Scheduler, name: str) -> Any:
    if name == "request":
        compiled = call.deciding if route.decides else call.compiled
        return compiled(scheduler, call.body)
    if name == "requests":
        all_compiled = call.deciding_all if route.decides else call.compiled_all
        return all_compiled(scheduler, call.body)
    if isinstance(route.query, type):
        return call.query_noun(route.query)
    if name == "owner":
        return call.user.owner or call.text(name)
    if name in route.query:
        return call.flag(name) if name in FLAGS else call.text(name)
    return getattr(call.body, name) if name in route.body.__struct_fields__ else call.body
