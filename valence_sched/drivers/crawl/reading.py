# SPDX-License-Identifier: Apache-2.0
"""Reads one live pod manager: log in, fetch, read, log out."""

import functools
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from valence_sched.drivers.crawl import cache as caches
from valence_sched.drivers.crawl.crawler import Crawler, ExpandReader, FetchTask
from valence_sched.drivers.dialect import Dialect, Dialects, dialect_of_driver, root_identity
from valence_sched.drivers.document_shape import MEMBERS, current_form, type_name
from valence_sched.drivers.fields import MAX_TEXT, NO_NOTES, Json, Notes, Parts, Resource
from valence_sched.drivers.http.connection import Connection, enter_service
from valence_sched.drivers.http.exchange import Deadline, TlsContexts, Unreachable
from valence_sched.drivers.links import ROOT, DocumentNotes, LinkedDocuments, Shared, fold_uri
from valence_sched.drivers.redfish.schema import Collection
from valence_sched.errors import InputError, PodmError, SchedulerError, name_some, one_line
from valence_sched.model import registration as registrations
from valence_sched.model.diagnostic import Diagnostic
from valence_sched.model.inventory import BlockType, FullPodm, Limit, PodmStatus, to_json
from valence_sched.model.quantity import format_count
from valence_sched.model.reading import PreviousReading
from valence_sched.model.registration import AUTO, Registration

LOG = logging.getLogger(__name__)
MAX_PASSES = 20  # each may find that the reader needs more documents
_NO_RESOURCE = "found no property of its schema, expected a service, a collection or a member"


def with_max_blocks(podm: FullPodm, max_blocks: Mapping[BlockType, int], notes: Notes) -> FullPodm:
    """Return the pod manager with ``max_blocks``; note each stricter limit that it states."""
    stricter: dict[tuple[BlockType, int], list[str]] = {}
    pools = []
    for pool in podm.pools:
        limits = dict(pool.limits)
        for kind, most in max_blocks.items():
            known = limits.get(kind, Limit())
            top = max(most if known.max is None else min(most, known.max), known.min)
            limits[kind] = Limit(known.min, top)
            if top != most:
                stricter.setdefault((kind, top), []).append(pool.id)
        pools.append(replace(pool, limits=limits) if max_blocks else pool)
    for (kind, found), ids in stricter.items():
        limit = format_count(found, f"{kind} block")
        what = f"found a limit of {limit} in a node, expected {max_blocks[kind]} as registered"
        text = f"pool {name_some(ids, 1)}: {what}"
        notes.remark(f"{text} (the limit of the pod manager applies)")
    return replace(podm, pools=tuple(pools))


@dataclass(frozen=True, slots=True)
class ReadTarget:
    """A pod manager to read, its password (never printed), and its last reading."""

    registered: Registration
    password: str | None = field(default=None, repr=False)
    previous: PreviousReading = field(default_factory=PreviousReading)


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """The options of a reading: seconds for each pod manager, parallel requests to each, caches."""

    timeout_s: float = 30.0
    parallel: int = 4
    #: Whether to ignore cached documents.
    full: bool = False
    cache: Path | None = None
    #: Whether readings include their documents, which take much memory.
    raw: bool = True
    memory: caches.ReadingMemory | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of reading one pod manager, and the ``documents`` by URI.

    ``failure`` is the reason of a failure in one line. ``podm`` then has neither blocks nor stocks;
    its status is Offline if no answer came, Unknown if answers were unreadable.
    """

    podm: FullPodm
    failure: str | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    documents: dict[str, Json] = field(default_factory=dict, repr=False)
    requests: int = 0


class PodmReader:
    """One reading of one pod manager."""

    def __init__(
        self,
        target: ReadTarget,
        settings: ReadSettings,
        at: datetime,
        start: caches.Start,
        tls: TlsContexts,
        shared: Shared | None = None,
    ) -> None:
        self._registration, self._password = target.registered, target.password
        self._previous = target.previous
        self._settings, self._start, self._tls = settings, start, tls
        self._shared: Shared = {} if shared is None else shared
        self._at = at.astimezone(UTC).replace(microsecond=0)
        self._deadline = Deadline(settings.timeout_s)
        self._connection: Connection | None = None

    @property
    def left_s(self) -> float:
        return self._deadline.left_s

    def read(self, dialects: Dialects) -> Reading:
        """Return the pod manager, or the reason why it could not be read."""
        try:
            return self._read(dialects)
        except (Unreachable, InputError) as error:
            return self._failure("Offline", str(error))
        except SchedulerError as error:
            return self._failure("Unknown", str(error))
        except Exception as error:
            what = f"could not be understood: {type(error).__name__}: {error}"
            return self._failure("Unknown", f"{what} (please report this)")

    def timeout_result(self) -> Reading:
        return self._failure("Offline", str(self._deadline.error()))

    def cut(self) -> None:
        if self._connection:
            self._connection.cut()

    def log_out(self) -> None:
        try:
            if self._connection:
                self._connection.close()
        except Exception as error:
            LOG.warning("%s: could not log out: %s", self._registration.name, error)

    def _read(self, dialects: Dialects) -> Reading:
        known, settings = self._registration, self._settings
        connection = Connection(known, self._password, self._deadline, settings.parallel, self._tls)
        self._connection = connection
        root = enter_service(connection)
        dialect = dialect_of_driver(known.driver, root, dialects, known.name)
        self._check_service(dialect, root)
        now_s, identity = self._at.timestamp(), root_identity(root)
        place = settings.cache, connection.url, known.username
        cache = caches.DocumentCache(*place, now_s, identity)
        answers = caches.Answers(connection.get)
        memory = None if settings.raw or settings.full else settings.memory
        key, most = (connection.url, known.name), known.max_blocks
        settled = to_json((root, most, known.hosts))
        basis = dialect.name, settled, known.username, cache.stamp()
        if memory is not None and not connection.login.remarks:
            found = memory.get(key, basis, now_s)
            if found and answers.are(found.digests, self._start, settings.parallel):
                return self._reading(found.podm(), found.diagnostics, {})
        if not settings.full:
            cache.load()
        documents = ExpandReader(connection.get if memory is None else answers.get)
        documents.read_features(root)
        crawl = Crawler(documents, cache, connection.host, settings.parallel, self._start)
        linked = functools.partial(LinkedDocuments, host=connection.host, max_blocks=most)
        linked = functools.partial(linked, shared=self._shared, known_nodes=self._previous.nodes)
        linked = functools.partial(linked, free_hosts=known.free_hosts)
        notes, podm, read, _ = read_in_passes(crawl, dialect, root, known.name, linked)
        cache.save(crawl.lasting_documents())
        for remark in (*connection.login.remarks, *([cache.problem] if cache.problem else [])):
            notes.remark(remark)
        podm = with_max_blocks(podm, most, notes)
        diagnostics = tuple(notes.diagnostics(known.name))
        is_certain = answers.certain and not any(node.stale for node in podm.nodes)
        if memory is not None and is_certain and not (connection.login.remarks or cache.problem):
            stamp = cache.stamp()
            # Once the cache was saved, the next reading requests fewer documents:
            # the result of the first reading must not be remembered.
            if basis[-1] is not None or stamp is None:
                known_as, digests = (*basis[:-1], stamp), dict(answers.digests)
                result = to_json(podm), diagnostics, cache.until_s
                memory.put(key, caches.RememberedReading(known_as, digests, *result))
        return self._reading(podm, diagnostics, read)

    def _check_service(self, dialect: Dialect, root: Json) -> None:
        """Raise Unreachable if the root no longer links its composition service."""
        known = self._previous
        now = dialect.root(ROOT, current_form(root, root=True), NO_NOTES)
        is_bare = any(link for way in dialect.bare_blocks for link in way.of(now))
        hosts = tuple(fold_uri(f"{uri}/") for uri in dialect.host_lists(now))
        if any(fold_uri(uri).startswith(hosts) for uri in known.blocks):
            return
        if known.blocks and (known.has_zones or not is_bare) and not dialect.has_service(now):
            what = "found no link to a composition service, expected one as at the last reading"
            raise Unreachable(f"{ROOT}: {what}")

    def _reading(
        self, podm: FullPodm, diagnostics: tuple[Diagnostic, ...], read: dict[str, Json]
    ) -> Reading:
        if loss := self._previous.loss(podm):
            diagnostics = (*diagnostics, Diagnostic("remark", one_line(f"{podm.id}: {loss}")))
        podm = self._with_registration(podm)
        if any(getattr(self._registration, name) for name in registrations.BLOCK_MARKS):
            podm = registrations.with_block_marks(podm, self._registration)
        return Reading(podm, None, diagnostics, read, self._requests)

    def _with_registration(self, podm: FullPodm) -> FullPodm:
        known, read_at = self._registration, f"{self._at.replace(tzinfo=None).isoformat()}Z"
        found = replace(podm, id=known.name, url=self._url, read_at=read_at)
        return registrations.with_registration(found, known)

    def _failure(self, status: PodmStatus, why: str) -> Reading:
        known = self._registration
        driver = None if known.driver == AUTO else known.driver
        podm = self._with_registration(FullPodm(id=known.name, driver=driver, status=status))
        failure = one_line(f"{known.name}: {self._url}: {why.removeprefix(known.name + ': ')}")
        return Reading(podm, failure, (), {}, self._requests)

    @property
    def _url(self) -> str:
        known = self._registration.url
        return self._connection.url if self._connection else re.sub(r"//[^/]*@", "//", known)

    @property
    def _requests(self) -> int:
        return self._connection.requests if self._connection else 0


class ReadPass(NamedTuple):
    """The result of one pass: the documents that it read, and the missing documents."""

    notes: DocumentNotes
    podm: FullPodm
    read: dict[str, Json]
    missing: list[str]


def read_in_passes(
    crawl: Crawler, dialect: Dialect, root: Json, name: str, linked: Callable[..., LinkedDocuments]
) -> ReadPass:
    """Repeat passes until every needed document is fetched; return the last pass.

    ``linked`` returns the linked documents. Its arguments are a function that returns a document,
    the notes, and the URIs of present documents. A full crawl takes as long as a pass. If answers
    are expanded, a pass therefore runs before the crawl: the documents that the root links may be
    enough.
    """
    crawl.add(ROOT, root)
    whole = FetchTask(ROOT, fold_uri(ROOT), dialect.root)
    if crawl.expands:
        crawl.fetch(crawl.below(whole), deep=False)
        found = _run_pass(crawl, dialect, name, linked)
        if not found.missing:
            return found
    crawl.fetch([whole])
    for _ in range(MAX_PASSES):
        found = _run_pass(crawl, dialect, name, linked)
        if not found.missing:
            return found
        for uri in (*found.read, *found.missing):
            crawl.queue_deferred(uri)
        crawl.fetch([])
    what = "its documents link further documents without end"
    raise PodmError(f"{what} (stopped after {MAX_PASSES} passes)")


def _run_pass(
    crawl: Crawler, dialect: Dialect, name: str, linked: Callable[..., LinkedDocuments]
) -> ReadPass:
    notes = DocumentNotes()
    read: dict[str, Json] = {}
    missing: list[str] = []
    known = dict(crawl.spelled_documents())

    def get(uri: str) -> Json | None:
        try:
            found = known.get(uri) or crawl.get(uri)
        except KeyError:
            missing.append(uri)
            return None
        if found is not None:
            read[uri] = found
        return found

    service = linked(get, notes, known)
    podm = dialect.inventory(service, name)
    if not missing:
        root = service.json(ROOT, "the protocol") or {}
        ListCheck(crawl, service).check(dialect.root(ROOT, root, NO_NOTES), is_near=True)
    return ReadPass(notes, podm, read, missing)


class ListCheck:
    """Checks the services and collections of a crawl, but not devices and their collections."""

    def __init__(self, crawl: Crawler, service: LinkedDocuments) -> None:
        self._crawl, self._service = crawl, service

    def check(self, holder: Resource, *, is_near: bool = False) -> None:
        """Raise Unreachable if a collection is incomplete; check services only if ``is_near``."""
        for way in holder.link_fields if holder.leads else ():
            if isinstance(way, Parts) or way.late or way.to.lasting:
                continue
            for link in filter(None, way.of(holder)) if is_near or way.collection else ():
                if (json := self._document(link, holder.uri)) is None:
                    continue
                one = way.to(*json, NO_NOTES)
                is_service = is_near and not way.collection
                if MEMBERS in one.json:
                    self._check_list(Collection(*json, NO_NOTES), way.to, is_service=is_service)
                    continue
                is_named = type_name(one.json).endswith(type(one).__name__.casefold())
                if one.lacks_fields and not (is_service and is_named):
                    raise Unreachable(f"{one.uri}: {_NO_RESOURCE}")
                self.check(one, is_near=is_service)

    def _check_list(self, page: Collection, to: type[Resource], *, is_service: bool) -> None:
        """Check a collection; with ``is_service``, one of its members must be the service."""
        first, found_any, pages = page.uri, not is_service, set[str]()
        counts = to.reports_use or any(not way.to.lasting for way in to.link_fields)
        while page.uri not in pages:
            pages.add(page.uri)
            members = page.members
            is_missing = page.json.get(MEMBERS) is None and page.count != 0
            if is_missing or (members and not any(members)):
                raise Unreachable(f"{page.uri}: found no members, expected a list of them")
            for uri in self._service.uris(members, page.uri) if counts else ():
                if json := self._member(uri, page.uri, to):
                    one = to(uri, json, NO_NOTES)
                    found_any = found_any or not one.lacks_fields
                    self.check(one)
            found = self._document(page.next_link, page.uri) if page.next_link else None
            page = Collection(*found, NO_NOTES) if found else page
        if not found_any:
            raise Unreachable(f"{first}: {_NO_RESOURCE}")

    def _member(self, uri: str, where: str, to: type[Resource]) -> Json | None:
        try:
            found = self._crawl.get(uri)
        except KeyError:
            return None
        except InputError as error:
            if to.reports_use:
                raise Unreachable(str(error)) from None
            return None
        if to.reports_use and found is not None and to(uri, found, NO_NOTES).lacks_fields:
            raise Unreachable(f"{uri}: {_NO_RESOURCE}")
        return found and self._service.json(uri, where)

    def _document(self, link: str, where: str) -> tuple[str, Json] | None:
        """Return a document with its URI, None if the reader does not need it."""
        if (uri := self._service.uri(link, where)) is None:
            what = f"found a link to {link[:MAX_TEXT]}, expected a link to this host"
            hint = "if that is the same service, register that address"
            raise Unreachable(f"{where}: {what} ({hint})")
        try:
            found = self._crawl.get(uri)
        except KeyError:
            return None
        except InputError as error:
            raise Unreachable(str(error)) from None
        if not found or (json := self._service.json(uri, where)) is None:
            what = "no such document" if found is None else "an empty document"
            raise Unreachable(f"{uri}: found {what}, but {where} links it")
        return uri, json
