# SPDX-License-Identifier: Apache-2.0
"""RemoteScheduler: the verbs of a scheduler, over the HTTP of a service."""

import functools
import inspect
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import msgspec

from valence_sched import errors
from valence_sched.model import http, inventory, lifecycle, request, zone, zone_registry
from valence_sched.model.claim import TTL_S, WAIT_S, Claim
from valence_sched.model.decision import Report, Reports, parse_report
from valence_sched.model.http import MOST_HOPS
from valence_sched.model.plan import Plan
from valence_sched.model.scheduler import TREE_S, Scheduler
from valence_sched.model.stats import podm_id
from valence_sched.model.verbs import VERBS, Generation, Operation, Route
from valence_sched.remote.connection import ServiceConnection, path_of

P = ParamSpec("P")
R = TypeVar("R")

MOST_ANSWER_BYTES = 64 << 20  # bytes of the answer of a zone to one query
MOST_INFO_BYTES = 1 << 20  # bytes of the info of a zone, which the zone above stores
POLL_S = (0.05, 0.1, 0.2, 0.5, 1.0)  # pauses between checks of an operation; the last one repeats
MOST_LOST = 10  # checks of an operation without an answer, one after another
_CHECK_HINT = "check and reconcile the claims and nodes"
_signature = functools.cache(inspect.signature)
#: Body fields whose names differ from the argument of the verb.
FIELDS = {"spec": "request", "request": "compiled", "requests": "compiled", "report": "decision"}
FIELDS |= {"claim_id": "claim"}
_WAITS, _MORE_S = 2, 360.0  # a zone may wait twice, and has this time for its own calls
#: Verbs that use the route of another verb.
ROUTES = {"compose_claim": "compose", "compose_plan": "compose"}


def operation_s(wait_s: float) -> float:
    """Return the seconds that a zone may take to compose or change nodes."""
    return _WAITS * wait_s + _MORE_S


class RemoteScheduler(Scheduler):
    """Calls a service for every verb, by the table of verbs; raises the errors of the service.

    A request for a decision without a claim gets an id from its content, as in a local scheduler,
    so that a repeated request gets the same decision. For the zone above, it also makes and holds
    the offers of the zone of its service.

    If it ``ends``, it waits for an operation at most ``operation_s``; otherwise without a limit.
    """

    def __init__(
        self,
        connection: ServiceConnection,
        sleep: Callable[[float], object] = time.sleep,
        *,
        ends: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection, self._sleep, self._ends, self._clock = connection, sleep, ends, clock

    def _call(self, verb: Callable[Concatenate[Any, P], R], *words: P.args, **named: P.kwargs) -> R:
        bound = _signature(verb).bind(self, *words, **named)
        bound.apply_defaults()
        arguments = dict(itertools.islice(bound.arguments.items(), 1, None))
        if arguments.pop("password", None) is not None:
            hint = "use --password-env or --password-file, which the service reads on its host"
            raise errors.UsageError(f"a typed password is not sent to a service: {hint}")
        name = verb.__name__
        return cast("R", self._send(VERBS[ROUTES.get(name, name)], arguments))

    def _send(self, route: Route, arguments: dict[str, Any]) -> Any:
        """Return the answer to a verb; for several names, yield the errors of each."""
        collection, named, part = route.path.removeprefix("/v1/").partition("/{name}")
        path, query, key = collection, dict[str, Any](), arguments.pop("key", None)
        if named:
            name = arguments.pop(next(iter(arguments)))
            if not isinstance(name, str | None):
                send = functools.partial(self._send, route)
                return errors.each_error(lambda one: send({"name": one, **arguments}), name)
            if name is not None:  # None: the owner of the default limits
                path, query = path_of(collection, name, part.removeprefix("/"))
        body = None
        if route.body is not None:
            if route.decides and not route.changes:
                arguments = {name: _identified(value) for name, value in arguments.items()}
            body = _body(route.body, arguments)
        elif isinstance(route.query, type):
            query |= msgspec.to_builtins(*arguments.values())
        else:
            lists = {
                it: ",".join(of) for it, of in arguments.items() if isinstance(of, list | tuple)
            }
            query |= arguments | lists
        content, headers = self._connection.ask(route.method, path, query, body=body, key=key)
        if route.answer is None:
            return None
        answer = self._connection.decode(content, route.answer, changes=route.changes)
        if route.answer is Operation:
            most_s = operation_s(arguments.get("wait_s", WAIT_S)) if self._ends else math.inf
            return self._operate(answer, route.result, most_s)
        return self._listed(answer, headers) if route.lists else answer

    def _listed(self, answer: Sequence[R], headers: Mapping[str, str]) -> zone.ZonedList[R]:
        try:
            silent = zone.parse_silent_header(headers.get(zone.SILENT_HEADER, ""))
        except ValueError as error:
            text = f"{self._connection.url}: {error}: the service may be newer"
            raise errors.ServiceError(text) from None
        return zone.ZonedList(answer, silent)

    def _operate(self, operation: Operation, kind: type[R], most_s: float) -> R:
        until, id_, lost = self._clock() + most_s, operation.id, 0
        for pause_s in itertools.chain(POLL_S, itertools.repeat(POLL_S[-1])):
            if operation.state != "running":
                break
            if self._clock() > until:
                text = errors.one_line(f"operation {id_} is still running after {most_s:g} s", 200)
                raise errors.Unverified(f"{text}: {_CHECK_HINT}")
            self._sleep(pause_s)
            try:
                content, _ = self._connection.ask("GET", *path_of("operations", id_))
                operation, lost = self._connection.decode(content, Operation), 0
            except errors.SchedulerError as error:  # the operation may go on
                if (lost := lost + 1) == MOST_LOST:
                    text = errors.one_line(f"operation {id_} cannot be read: {error}", 300)
                    raise errors.Unverified(f"{text}: {_CHECK_HINT}") from None
        if operation.problem is not None:
            raise http.error_of(operation.problem)
        if operation.state != "done":
            text = f"operation {id_} was interrupted with its process"
            raise errors.Unverified(f"{text}: {_CHECK_HINT}")
        return self._connection.decode(bytes(operation.result), kind)

    def decision(self, decision_id: str) -> Report | Reports:
        content, _ = self._connection.ask("GET", *path_of("decisions", decision_id))
        return parse_report(content, f"decision {decision_id}")[0]

    def documents(self) -> Iterator[inventory.FullPodm]:
        yield from super().documents()

    def preview(self, report: Report) -> Iterator[lifecycle.Preview]:
        yield from super().preview(report)

    def update_resource_stats(self, podm: str | tuple[str, str], stats: Mapping[str, Any]) -> int:
        route, arguments = VERBS["update_resource_stats"], {"podm": podm_id(podm), "stats": stats}
        generation: Generation = self._send(route, arguments)
        return generation.generation

    def zone_info(self) -> zone_registry.ZoneInfo:
        content, _ = self._connection.ask("GET", "zones/info", most_bytes=MOST_INFO_BYTES)
        return self._connection.decode(content, zone_registry.ZoneInfo)

    def zone_branches(
        self, *, hops: int = MOST_HOPS, deadline_s: float = TREE_S, route: Sequence[str] = ()
    ) -> Sequence[zone_registry.ZoneNode]:
        return self.zone_tree(hops=hops, deadline_s=deadline_s, route=route).children

    def claim_plan(self, plan: Plan, *, key: str | None = None, ttl_s: float = TTL_S) -> Claim:
        arguments = {"plan": plan, "key": key, "ttl_s": ttl_s}
        result: lifecycle.ClaimResult = self._send(VERBS["claim"], arguments)
        assert result.claim is not None, "a plan is claimed completely, or an error is raised"
        return result.claim

    def check_plan(self, plan: Plan) -> None:
        return  # the service checks the plan with each verb

    def offers(self, query: zone.OfferQuery) -> zone.ZoneAnswer:
        return self._ask_zone("offers", query, zone.ZoneAnswer, most_bytes=MOST_ANSWER_BYTES)

    def group_state(self, query: zone.OfferQuery) -> zone.GroupAnswer:
        return self._ask_zone("group_state", query, zone.GroupAnswer, most_bytes=MOST_ANSWER_BYTES)

    def hold_offers(self, body: zone.ZoneClaimBody, *, key: str | None = None) -> Claim:
        return self._ask_zone("claims", body, Claim, key=key)

    def _ask_zone(
        self, path: str, body: zone.OfferQuery | zone.ZoneClaimBody, kind: type[R], **options: Any
    ) -> R:
        options["deadline_s"] = body.deadline_s
        content, _ = self._connection.ask("POST", f"zones/{path}", body=body, **options)
        return self._connection.decode(content, kind)


def _identified(argument: Any) -> Any:
    if isinstance(argument, request.Request):
        return request.with_content_id(argument)
    return tuple(map(_identified, argument)) if isinstance(argument, list | tuple) else argument


def _body(kind: type[msgspec.Struct], arguments: Mapping[str, Any]) -> msgspec.Struct:
    """Return the body with these arguments as fields, or the argument that already is a body."""
    (first, *_) = arguments.values()
    if isinstance(first, kind):
        return first
    fields = {FIELDS.get(name, name): value for name, value in arguments.items()}
    known = {name: value for name, value in fields.items() if name in kind.__struct_fields__}
    try:
        return kind(**known)
    except ValueError as error:
        raise errors.RequestError(str(error)) from None
