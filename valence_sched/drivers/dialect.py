# SPDX-License-Identifier: Apache-2.0
"""Dialect: how one kind of Redfish service is recognised, read and composed on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from valence_sched.drivers.composer import Composer, Session
from valence_sched.drivers.document_shape import current_form
from valence_sched.drivers.fields import NO_NOTES, Json, Link, Resource
from valence_sched.drivers.http.exchange import Patience
from valence_sched.drivers.links import ROOT, LinkedDocuments
from valence_sched.errors import PluginError, UnknownName, describe_error
from valence_sched.model.inventory import FullPodm
from valence_sched.model.registration import AUTO

#: The dialect of a service root that no other dialect recognises.
STANDARD = "redfish"


class Dialect(NamedTuple):
    """One kind of Redfish service; an entry point of ``valence_sched.dialects`` by its name.

    ``read`` takes the documents, the id of the pod manager and the name of the driver. All that
    it follows is declared as ``fields.Link`` on ``root`` and what that leads to, so the documents
    can be fetched ahead of it. ``recognise`` takes the service root and returns whether the
    service is of this dialect; without it the dialect is used only where a registration names it.
    ``composer`` makes a composer of a session and of what makes a patience; without it pod
    managers of this dialect are only read. ``amounts`` are the resources of stocks that its
    composer makes a part of; a request for an amount of another one is not composed there. One of
    the ``services`` is linked by a root that composes, without any stated any link of the root;
    ``bare_blocks`` are links to blocks of a root without such a service.
    """

    name: str
    root: type[Resource]
    read: Callable[[LinkedDocuments, str, str], FullPodm]
    recognise: Callable[[Json], bool] = lambda _root: False
    composer: Callable[[Session, Callable[[], Patience]], Composer] | None = None
    amounts: frozenset[str] = frozenset()
    services: tuple[Link, ...] = ()
    bare_blocks: tuple[Link, ...] = ()

    def inventory(self, service: LinkedDocuments, id_: str) -> FullPodm:
        """Read a pod manager; what its root lacks is noted."""
        podm = self.read(service, id_, self.name)
        root = service.json(ROOT, "the protocol")
        if root and not self.has_service(self.root(ROOT, root, NO_NOTES)):
            service.notes.remark(f"{ROOT}: found no composition service, expected a link to one")
        return podm

    def has_service(self, root: Resource) -> bool:
        services = self.services or [way for way in root.link_fields if isinstance(way, Link)]
        return _links_any(root, services)

    def lists_bare_blocks(self, root: Resource) -> bool:
        return _links_any(root, self.bare_blocks)

    def refusal(self, resources: Iterable[str]) -> str | None:
        """Return why a node with amounts of these resources is never composed, None if it may."""
        if self.composer is None:
            return f"driver {self.name!r} reads pod managers, and cannot compose on them"
        lacking = sorted(set(resources) - self.amounts)
        return f"driver {self.name!r} cannot compose {', '.join(lacking)}" if lacking else None


def _links_any(root: Resource, ways: Iterable[Link]) -> bool:
    return any(link for way in ways for link in way.of(root))


#: The installed dialects: functions that return them, by name.
Dialects = Mapping[str, Callable[[], Dialect]]


def recognised_dialect(root: Json | None, dialects: Dialects) -> Dialect:
    """Return the dialect of a service root: the first by name that recognises it, else DMTF's.

    Raises:
        PluginError: a dialect raised an error while it looked at the root.
        UnknownName: no dialect recognises the root, and DMTF's is not installed.
    """
    present = current_form(root, root=True) if root else {}
    for name in dialects if present else ():
        try:
            dialect = dialects[name]()
            if dialect.recognise(present):
                return dialect
        except Exception as error:
            raise PluginError(f"dialect {name!r}: {describe_error(error)}") from error
    if STANDARD not in dialects:
        raise UnknownName("dialect", STANDARD, dialects)
    return dialects[STANDARD]()


def dialect_of_driver(driver: str, root: Json | None, dialects: Dialects, podm: str) -> Dialect:
    """Return the dialect that a registration names; for ``auto``, as :func:`recognised_dialect`."""
    if driver == AUTO:
        return recognised_dialect(root, dialects)
    if driver not in dialects:
        raise UnknownName("driver", driver, dialects, podm)
    return dialects[driver]()
