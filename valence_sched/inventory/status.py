# SPDX-License-Identifier: Apache-2.0
"""Overlays claims and liveness on pod managers before a view is built.

Only a view has the overlay. Stores, captures and claims get pod managers as they were read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime

import msgspec

from valence_sched.core import plugins
from valence_sched.errors import PluginError, errors_at, one_line
from valence_sched.inventory.registry import Registry
from valence_sched.model.claim import NO_USAGE, ComposedNode, Usage, subtract_usage
from valence_sched.model.inventory import LeanPodm, Node, PodmStatus
from valence_sched.model.quantity import age_s
from valence_sched.model.reading import Sign

PodmReadTime = tuple[str, str | None]  # the id of a pod manager, and the time of its reading


def with_status(
    podms: Sequence[LeanPodm],
    registry: Registry,
    *,
    stored: Collection[str],
    statuses: dict[str, PodmStatus],
    requests: bool = False,
) -> Iterator[LeanPodm]:
    """Yield pod managers with their status, those in ``stored`` without what claims hold.

    With ``requests`` their nodes say what they were asked for, where the store knows it.
    """
    names = [podm.id for podm in podms if podm.id in stored]
    usages: dict[str, Usage] = {}
    composed: dict[str, dict[str, ComposedNode]] = {}
    if names and not registry.empty:
        with registry.store() as store:
            usages = store.usages(names)
            for node in store.nodes.list() if requests else ():
                if node.podm in stored:
                    composed.setdefault(node.podm, {})[node.uri] = node
    for podm in podms:
        status = statuses.get(podm.id, podm.status)
        same = status == podm.status
        with_its_status = podm if same else msgspec.structs.replace(podm, status=status)
        if known := composed.get(podm.id):
            nodes = tuple(_with_request(node, known.get(node.uri)) for node in podm.nodes)
            with_its_status = msgspec.structs.replace(with_its_status, nodes=nodes)
        yield subtract_usage(with_its_status, usages.get(podm.id, NO_USAGE))


def statuses(
    liveness: str | None,
    reports: Iterable[PodmReadTime],
    registry: Registry,
    now: datetime,
    place: str = "--liveness",
) -> dict[str, PodmStatus]:
    """Return by id which of the reported pod managers is Online and which Offline.

    ``liveness`` names the plug-in that decides so, with its argument after a colon; ``place`` is
    the option or variable that says so, which errors name.

    Raises:
        UnknownName, PluginError, UsageError: the plug-in or its argument is invalid.
    """
    if not liveness:
        return {}
    name, _, argument = liveness.partition(":")
    decide = plugins.load(plugins.LIVENESS).get(name, place)
    report_ages_s: dict[str, float] = {}
    if not registry.empty:
        with registry.store() as store:
            report_ages_s = store.report_ages_s()
    signs = [Sign(id_, age_s(read_at, now), report_ages_s.get(id_)) for id_, read_at in reports]
    with plugins.plugin_errors(f"liveness {name!r}"), errors_at(place):
        alive_by_id = decide(signs, argument, now)
    known = {sign.id for sign in signs}
    try:
        found = ((id_, alive) for id_, alive in alive_by_id.items() if id_ in known)
        return {id_: "Online" if alive else "Offline" for id_, alive in found}
    except (AttributeError, TypeError, ValueError) as error:
        raise PluginError(one_line(f"liveness {name!r} returned no map: {error}")) from None


def _with_request(node: Node, composed: ComposedNode | None) -> Node:
    if composed is None:
        return node
    flavor, request = composed.flavor or node.flavor, composed.request or node.request
    return msgspec.structs.replace(node, flavor=flavor, request=request)
