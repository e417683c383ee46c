# SPDX-License-Identifier: Apache-2.0
"""The client of a scheduler, in this process or behind HTTP: two calls.

A caller imports only this module::

    from valence_sched import client

    scheduler = client.connect("http://127.0.0.1:8790")
    (destination,) = scheduler.select_destinations(None, {"flavor": "small"}, {})
    scheduler.update_resource_stats(None, destination["name"], {"load": 0.5})
"""

import os
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from valence_sched.errors import InputError, NothingFits, name_some, one_line
from valence_sched.model import base, codec, decision
from valence_sched.model.reading import ReadOptions, Selection
from valence_sched.model.request import Request, with_own_id
from valence_sched.model.request_spec import RequestSpec, compile_request
from valence_sched.model.scheduler import Scheduler
from valence_sched.model.stats import select_stats
from valence_sched.remote.connection import connection
from valence_sched.remote.scheduler import RemoteScheduler

#: A name of a resource: an id, or host and node.
ResourceName = str | tuple[str, str]
PARTS = ("request_spec", "filter_properties")  # of a generic resource request
MAX_REASONS = 3


class SchedulerClient:
    """The two calls to any scheduler; they raise the errors of its verbs.

    Threads may share the client of a service; with a scheduler in this process they take turns.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler

    def select_destinations(
        self,
        context: object,
        request_spec: Mapping[str, Any],
        filter_properties: Mapping[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        """Return the best destination for each node of a request.

        A destination has the ``name`` of its pod manager (``ZONE/NAME`` in a zone below), the
        ``pool``, the URIs of the ``blocks``, the ``score`` (0..1), and the names of its
        ``alternates``.

        ``request_spec`` states the nodes, ``filter_properties`` their allowed places. Together they
        have the form of a request file. ``request_spec`` may be a generic resource request with
        both parts. ``context`` may have a ``project_id``, which owns the nodes of a request without
        an owner. Ties are broken at random, except for a request with a seed or an id.

        Raises:
            NothingFits: the nodes fit on no pod manager; the message has the nearest reasons.
            InputError, RequestError, UnknownName: the request is invalid, or has unknown names.
        """
        request = self._compiled(context, request_spec, filter_properties)
        decided = self.scheduler.select_destinations(request, detail="summary").report
        report = decision.with_podm_paths(decided)
        name_of = (lambda one: one.podm) if report.zones else resource_name
        if not report.placements:
            raise NothingFits(_refusal(report))
        return [
            {
                "name": name_of(placement.chosen),
                "pool": placement.chosen.pool,
                "blocks": [block.uri for block in placement.chosen.blocks],
                "score": placement.chosen.score,
                "alternates": [name_of(one) for one in placement.alternates],
            }
            for placement in report.placements
        ]

    def update_resource_stats(
        self, context: object, name: ResourceName, stats: Mapping[str, Any]
    ) -> None:
        """Store the state of a resource; the next selection uses it.

        ``name`` is a name from :meth:`select_destinations`. ``stats`` is a JSON object of fields of
        a pod manager; other keys become facts.

        Raises:
            InputError: a value is invalid; nothing is stored.
        """
        self.scheduler.update_resource_stats(name, stats)

    def fields_read(self, policy: str = "default", flavor: str | None = None) -> tuple[str, ...]:
        """Return the fields of a resource that decisions of a policy read.

        Other fields need not be sent, see :func:`needed_stats`. With ``flavor``, the result has
        only the fields that decisions on that flavor read. Every decision reads ``pools``,
        ``blocks``, ``stocks`` and ``amounts``.

        Raises:
            UnknownName: no such policy or flavor.
        """
        return self.scheduler.podm_reads(policy, flavor).fields

    def _compiled(
        self, context: object, spec: Mapping[str, Any], properties: Mapping[str, Any] | None
    ) -> Request:
        if properties is None and PARTS[0] in spec:
            if unknown := sorted(spec.keys() - set(PARTS)):
                text = f"unknown field {unknown[0]!r}"
                raise InputError("the resource request", "$", text, " and ".join(PARTS))
            spec, properties = spec[PARTS[0]], spec.get(PARTS[1])
        words = {**spec, **(properties or {})}
        parsed = codec.convert(words, RequestSpec, "the request")
        if parsed.flavor is None and not (parsed.near or parsed.prefer_near):
            request = compile_request(parsed)
        else:
            request = self.scheduler.compile_request(parsed)
        if isinstance(context, Mapping):
            owner = context.get("project_id")
        else:
            owner = getattr(context, "project_id", None)
        if request.owner is None and isinstance(owner, str) and owner:
            request = msgspec.structs.replace(request, owner=owner)
        return with_own_id(request) if parsed.seed is None else request


def connect(
    url: str | None = None,
    *,
    inventories: tuple[str, ...] = (),
    state: str | None = None,
    near_maps: tuple[str, ...] = (),
    environ: Mapping[str, str] | None = None,
) -> SchedulerClient:
    """Return the client of the service at a URL, else of a scheduler in this process.

    The default of ``url`` is ``VALENCE_SCHED_URL``, unless inventories or a state are given.
    ``near_maps`` locate external resources for a scheduler in this process; a service has its own.
    Errors as for a connection. Several threads may connect at the same time.
    """
    variables = os.environ if environ is None else environ
    if not (inventories or state):
        service = connection(variables, url)
        if service is not None:
            base.prepare_nouns()
            return SchedulerClient(RemoteScheduler(service))
    from valence_sched.app import App, import_late_modules  # the whole scheduler: only to run it

    import_late_modules()
    base.prepare_nouns()
    selection = Selection(sources=inventories, near_maps=near_maps, live=ReadOptions(state=state))
    return SchedulerClient(App(environ=variables).engine(selection))


def needed_stats(stats: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    """Return the part of the stats of a resource that decisions read.

    ``fields`` has the results of :meth:`SchedulerClient.fields_read` for all policies of a site.
    """
    return select_stats(stats, fields)


def resource_name(candidate: decision.Candidate) -> ResourceName:
    """Return the name of a candidate's pod manager; ``host/node`` becomes a tuple."""
    host, slash, node = candidate.podm.partition("/")
    return (host, node) if slash and host and node else candidate.podm


def _refusal(report: decision.Report) -> str:
    reasons = [f"{one.podm}: {one.reason.text}" for one in report.podms if one.reason]
    why = name_some(reasons, MAX_REASONS, "; ", ", and") or report.outcome.replace("_", " ")
    return one_line(f"the nodes fit on no pod manager: {why}")
