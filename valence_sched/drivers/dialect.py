# SPDX-License-Identifier: Apache-2.0
"""Dialect: recognises, reads and composes on one kind of Redfish service."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from valence_sched.drivers.composer import Composer, Session
from valence_sched.drivers.document_shape import current_form
from valence_sched.drivers.fields import NO_NOTES, Json, Link, Resource
from valence_sched.drivers.http.exchange import Patience
from valence_sched.drivers.identity import service_identity
from valence_sched.drivers.links import ROOT, LinkedDocuments
from valence_sched.errors import PluginError, UnknownName, describe_error
from valence_sched.model.inventory import FullPodm
from valence_sched.model.registration import AUTO

#: The dialect of a service root that no other dialect recognises.
STANDARD = "redfish"


class Dialect(NamedTuple):
    """One kind of Redfish service; ``name`` is its entry point in ``valence_sched.dialects``."""

    name: str
    #: The class of the service root; the crawl follows each ``fields.Link`` from there.
    root: type[Resource]
    #: Reads a pod manager from its documents, its id and the name of the driver.
    read: Callable[[LinkedDocuments, str, str], FullPodm]
    #: Whether a service root is of this dialect; by default only a registration selects the
    #: dialect.
    recognise: Callable[[Json], bool] = lambda _root: False
    #: Makes a composer from a session and a factory of patiences; None if the dialect only reads.
    composer: Callable[[Session, Callable[[], Patience]], Composer] | None = None
    #: The stock resources of which its composer can compose amounts.
    amounts: frozenset[str] = frozenset()
    #: The root of a composing service has at least one of these links; empty means any link.
    services: tuple[Link, ...] = ()
    #: Links to blocks in a root without a composition service.
    bare_blocks: tuple[Link, ...] = ()

    def inventory(self, service: LinkedDocuments, id_: str) -> FullPodm:
        """Read a pod manager and its identity; note a root without a composition service."""
        podm = self.read(service, id_, self.name)
        root = service.json(ROOT, "the protocol")
        if root and not self.has_service(self.root(ROOT, root, NO_NOTES)):
            service.notes.remark(f"{ROOT}: found no link to a composition service, expected one")
        return replace(podm, identity=podm.identity or service_identity(service))

    def has_service(self, root: Resource) -> bool:
        services = self.services or [way for way in root.link_fields if isinstance(way, Link)]
        return any(link for way in services for link in way.of(root))

    def refusal(self, resources: Iterable[str]) -> str | None:
        """Return the reason why no node with amounts of these resources can be composed."""
        if self.composer is None:
            return f"driver {self.name!r} only reads pod managers and cannot compose"
        lacking = sorted(set(resources) - self.amounts)
        return f"driver {self.name!r} cannot compose {', '.join(lacking)}" if lacking else None


#: The installed dialects: functions that return them, by name.
Dialects = Mapping[str, Callable[[], Dialect]]


def recognised_dialect(root: Json | None, dialects: Dialects) -> Dialect:
    """Return the first dialect, in the order of names, that recognises a root, else DMTF's.

    PluginError: a dialect fails. UnknownName: DMTF's is not installed.
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
    """Return the dialect that a registration names; ``auto``: :func:`recognised_dialect`."""
    if driver == AUTO:
        return recognised_dialect(root, dialects)
    if driver not in dialects:
        raise UnknownName("driver", driver, dialects, podm)
    return dialects[driver]()
