# SPDX-License-Identifier: Apache-2.0
"""Zone podms: the pod managers of a zone and of those below it, each found by its name or path."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from valence_sched.errors import (
    NoPodm,
    SchedulerError,
    ServiceError,
    UnknownName,
    UsageError,
    one_line,
)
from valence_sched.model.request import Request, with_inherited
from valence_sched.model.scheduler import Scheduler
from valence_sched.zones import paths
from valence_sched.zones.calls import call_below


class PodmPlace(NamedTuple):
    """The zone directly below that has a pod manager (``""``: this one), and its name there."""

    zone: str
    name: str


@dataclass(frozen=True)
class ZonePodms:
    """Finds pod managers: the zone's ``own``, and those of its children by name.

    ``child`` returns the verbs of a child; errors as of it. ``stated`` are the capabilities of this
    zone, which hold for all of them.
    """

    own: Scheduler
    children: Mapping[str, Callable[[], Scheduler]]
    deadline_s: float
    stated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def find(self, name: str) -> PodmPlace:
        """Return where a pod manager is; one that no zone has would be this zone's own.

        ``CHILD/NAME`` is the way to one. A name alone is looked up in all zones.

        Raises:
            UsageError: several zones have one of this name.
            ServiceError: no zone that answers has it, and one that does not may have it.
        """
        zone, rest = paths.split(name, self.children)
        if zone:
            return PodmPlace(zone, rest)
        if self.has_own(name):
            return PodmPlace("", name)
        having = self._children_having(name)
        if len(having) > 1:
            names = " or ".join(paths.path(child, name) for child in having)
            raise UsageError(one_line(f"several zones have pod manager {name!r}: name {names}"))
        if having:
            return PodmPlace(having[0], name)
        return PodmPlace("", name)

    def requests(self, request: Request) -> Callable[[str], Request]:
        """Return what tells a request as each zone names its pod managers; ``""`` is this one.

        A name alone is that of each pod manager that has it. Errors as of ``find``, and:

        Raises:
            UnknownName: no zone has a pod manager of the request.
        """
        request = with_inherited(request, self.stated)
        having: dict[str, list[str]] = {}
        for name in dict.fromkeys((*request.podms, *request.exclude_podms)):
            child, rest = paths.split(name, self.children)
            if child:
                having[name] = [child] if self._may_have(child, rest) else []
            else:
                here = [""] if self.has_own(name) else []
                having[name] = here + self._children_having(name, surely=not here)
            if not having[name]:
                raise UnknownName("pod manager", name, ())
        return lambda zone: paths.request_for(zone, request, self.children, having.__getitem__)

    def has_own(self, name: str) -> bool:
        """Return whether the zone itself has a pod manager of this name."""
        return _has(self.own, name)

    def _may_have(self, child: str, name: str) -> bool:
        try:
            return _has(self.children[child](), name)
        except SchedulerError:
            return True  # it is silent: what asks it next tells

    def _children_having(self, name: str, *, surely: bool = True) -> list[str]:
        """Return the children with a pod manager of a name; without, ServiceError for silent ones.

        Where another zone has it, not ``surely``, silent ones may be without.
        """
        calls = {child: functools.partial(_asked, verbs, name)
                 for child, verbs in self.children.items()}  # fmt: skip
        answers = call_below(calls, self.deadline_s)
        having = [child for child, answer in answers.items() if answer is True]
        for child, answer in answers.items():
            if isinstance(answer, SchedulerError) and surely and not having:
                raise ServiceError(one_line(
                    f"zone {child} may have pod manager {name!r}, and does not answer: {answer}"
                ))  # fmt: skip
        return having


def _asked(verbs: Callable[[], Scheduler], name: str) -> bool:
    return _has(verbs(), name)


def _has(verbs: Scheduler, name: str) -> bool:
    try:
        verbs.podm(name)
    except (UnknownName, NoPodm):
        return False
    return True
