# SPDX-License-Identifier: Apache-2.0
"""Linked Redfish documents: resolves and follows links safely, and collects notes.

An aggregator may omit the path of an agent in its links. Such a short link is followed only if
there is no document at the link itself.
"""

import contextlib
import functools
import itertools
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import unquote, urljoin, urlsplit

from valence_sched.drivers.bounds import MAX_NOTES
from valence_sched.drivers.document_shape import COUNT, MEMBERS, ShapeMemo
from valence_sched.drivers.fields import MAX_TEXT, NO_NOTES, Json, Notes, Resource
from valence_sched.drivers.redfish.schema import Collection
from valence_sched.errors import InputError, PodmError, one_line
from valence_sched.model.diagnostic import Diagnostic, Kind
from valence_sched.model.inventory import BlockType, Node
from valence_sched.model.quantity import format_count
from valence_sched.model.registration import matches_uri

_ROOT = ("redfish", "v1")
MAX_PLACES = 8
#: Returns a document, None if there is none; raises InputError if it is unreadable.
Get = Callable[[str], Json | None]
R = TypeVar("R", bound=Resource)
T = TypeVar("T")
#: Objects that all pod managers of one reading share, by the function that makes each object.
Shared = dict[Callable[[], Any], Any]
ROOT = "/redfish/v1"
MAX_PAGES = 100_000
MAX_PAGES_UNBOUNDED = 1000
_PORTS = {"https": ":443", "http": ":80"}


def places_below(parent: str, link: str) -> list[str]:
    """Return the URIs that a link without its agent's path may mean, the likeliest first.

    ``parent`` and ``link`` are paths; the end of ``parent`` may overlap the start of ``link``.

    >>> places_below("/redfish/v1/Agents/a/Systems/1", "/redfish/v1/Systems/1/Memory")[0]
    '/redfish/v1/Agents/a/Systems/1/Memory'
    >>> places_below("/redfish/v1/Agents/a", "/Systems/1")
    ['/redfish/v1/Agents/a/Systems/1', '/redfish/v1/Agents/Systems/1', '/redfish/v1/Systems/1']
    """
    path, mark, query = link.partition("?")
    above, rest = _segments(parent.partition("#")[0].partition("?")[0]), _segments(path)
    old, new = [part.casefold() for part in above], [part.casefold() for part in rest]
    most = min(len(old), len(new))
    shared = next((n for n in range(most, 0, -1) if old[-n:] == new[:n]), 0)
    if not rest or shared == len(above) > 0:
        return []
    places = [above + rest[shared:]] if shared else []
    places += [above[:length] + rest for length in range(len(above), -1, -1)]
    found = (f"/{'/'.join((*_ROOT, *place))}{mark}{query}" for place in places)
    return [uri for uri in dict.fromkeys(found) if uri.casefold() != link.casefold()][:MAX_PLACES]


def _segments(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part]
    return parts[2:] if tuple(map(str.casefold, parts[:2])) == _ROOT else parts


def path_of(uri: str) -> str:
    """Return the path of a URI with its query, without trailing slash and fragment."""
    if _is_plain(uri):
        return uri
    path, _, query = uri.partition("#")[0].partition("?")
    path = "/" + path.strip("/")
    return f"{path}?{query}" if query else path


def _is_plain(uri: str) -> bool:
    is_path = uri[:1] == "/" != uri[1:2] and uri[-1] != "/"
    return is_path and "#" not in uri and "?" not in uri and "://" not in uri


class LinkedDocuments:
    """Documents that link each other; of several spellings of a URI, the known or first one counts.

    ``max_blocks`` is the operator's limit on blocks of a type in one node, ``known_nodes`` are the
    nodes of the last reading, ``shared`` is used by several threads. ``free_hosts`` are patterns of
    hosts, or of the last parts of their URIs, that are free without attached blocks.
    """

    def __init__(
        self,
        get: Get,
        notes: Notes,
        known: Iterable[str] = (),
        host: str | None = None,
        max_blocks: Mapping[BlockType, int] | None = None,
        shared: Shared | None = None,
        known_nodes: Iterable[Node] = (),
        free_hosts: Sequence[str] = (),
    ) -> None:
        self.get, self.notes, self._host = get, notes, host
        self.max_blocks, self.free_hosts = max_blocks or {}, free_hosts
        self.known_nodes = {node.uri: node for node in known_nodes}
        self._shared: Shared = {} if shared is None else shared
        self._known = frozenset(known)
        self._plain = {it for it in self._known if _is_plain(it) and len(it) <= MAX_TEXT}
        self._shapes = self.shared(ShapeMemo)
        self._documents: dict[str, Json | None] = {}
        self._refused: set[str] = set()
        #: Existing but unreadable documents.
        self.unreadable: set[str] = set()
        self._is_short = False

    def is_free_host(self, uri: str) -> bool:
        return any(matches_uri(uri, pattern) for pattern in self.free_hosts)

    def shared(self, make: Callable[[], T]) -> T:
        """Return the result of a function, made once for all pod managers of one reading."""
        found: T | None = self._shared.get(make)
        return self._shared.setdefault(make, make()) if found is None else found

    def uri(self, link: str, where: str) -> str | None:
        """Return the URI of a link; for a link to another host, take a note and return None."""
        if link in self._plain:
            return link
        if not link:
            self._refuse(where, where, "a link without @odata.id, expected @odata.id")
            return None
        if len(link) > MAX_TEXT:
            length = format_count(len(link), "character")
            self._refuse(link, where, f"a link of {length}, expected at most {MAX_TEXT}")
            return None
        path = link
        if "://" in link:
            host, path = host_and_path(link)
            self._host = self._host or host  # of a recording: that of its first link
            if host != self._host:
                found = f"a link to {host}{path}" if host else f"{link[:60]!r} for a link"
                self._refuse(path, where, f"{found}, expected links to {self._host} only")
                return None
        uri = path_of(path)
        if uri in self._known:
            return uri
        spelled = self._spelled.setdefault(fold_uri(uri), uri)
        return spelled if spelled in self._known else self._below(spelled, where)

    def uris(self, links: Iterable[str], where: str) -> Iterator[str]:
        for link in links:
            if uri := link if link in self._plain else self.uri(link, where):
                yield uri

    def _below(self, uri: str, where: str) -> str:
        for place in places_below(where, uri) if self._known and where[:1] == "/" else ():
            known = self._spelled.get(fold_uri(place))
            if known in self._known:
                if not self._is_short:
                    self._is_short = True
                    what = "found links without the path of their agent"
                    self.notes.remark(f"{where}: {what}: {uri} is read as {known} (and others)")
                return known
        return uri

    @functools.cached_property
    def _spelled(self) -> dict[str, str]:
        return {fold_uri(uri): uri for uri in sorted(self._known, reverse=True)}

    def member_uris(
        self, links: Iterable[str], where: str, known: Container[str] = ()
    ) -> Iterator[str]:
        for uri in self.uris(links, where):
            json = None if uri in known else self.json(uri, where)
            if json and MEMBERS in json:
                members = self._members(Collection(uri, json, self.notes))
                yield from filter(None, (self.uri(link, page) for link, page in members))
            else:
                yield uri

    def json(self, uri: str, where: str) -> Json | None:
        """Return the document at a URI; note a dangling link or bad document once."""
        if uri in self._documents:
            return self._documents[uri]
        present = None
        try:
            if found := self.get(uri):
                present = self._shapes.current_form(found, root=uri == ROOT)
            else:
                what = "no such document" if found is None else "an empty document"
                self.notes.skip(f"{uri}: found {what}, but {where} links it")
                self.unreadable.update(() if found is None else (uri,))
        except InputError as error:
            self.unreadable.add(uri)
            self.notes.skip(error)
        self._documents[uri] = present
        return present

    def follow(
        self, links: Iterable[str], type_: type[R], where: str, known: Container[str] = ()
    ) -> Iterator[R]:
        """Return each linked resource once; a linked collection means all its members.

        If there are several links, links to ``known`` URIs are omitted.
        """
        targets = tuple(links)
        return self._follow(targets, type_, where, known) if targets else iter(())

    def _follow(
        self, targets: tuple[str, ...], type_: type[R], where: str, known: Container[str]
    ) -> Iterator[R]:
        seen: set[str] = set()
        plain, documents, is_alone = self._plain, self._documents, len(targets) == 1
        for link in targets:
            uri = link if link in plain else self.uri(link, where)
            if uri is None or uri in seen or (uri in known and not is_alone):
                continue
            seen.add(uri)
            json = documents[uri] if uri in documents else self.json(uri, where)
            if json is None:
                continue
            if MEMBERS in json:
                yield from self._follow_members(Collection(uri, json, self.notes), type_, seen)
                continue
            found = type_(uri, json, self.notes)
            if is_alone and found.is_empty:  # it may be a collection
                what = "found neither members nor a property of a member"
                self.notes.skip(f"{uri}: {what}, expected a collection")
                continue
            self._note_empty(found, where)
            yield found

    def _follow_members(self, first: Collection, type_: type[R], seen: set[str]) -> Iterator[R]:
        outer = [self._members(first)]
        while outer:
            for link, where in outer[-1]:
                uri = self.uri(link, where)
                if uri is None or uri in seen:
                    continue
                seen.add(uri)
                if not (json := self.json(uri, where)):
                    continue
                if MEMBERS in json:
                    outer.append(self._members(Collection(uri, json, self.notes)))
                    break
                found = type_(uri, json, self.notes)
                self._note_empty(found, where)
                yield found
            else:
                outer.pop()

    def _note_empty(self, found: Resource, where: str) -> None:
        if not found.lasting and found.is_empty and not found.only_links:
            self.unreadable.add(found.uri)
            found.remark(f"found no property of its kind, but {where} links it")

    def collections(self, links: Iterable[str], where: str) -> Iterator[Collection]:
        """Yield the first pages of the linked collections."""
        for link in links:
            uri = self.uri(link, where)
            if uri is not None and (json := self.json(uri, where)) and MEMBERS in json:
                yield Collection(uri, json, self.notes)

    def unread_members(self, links: Iterable[str], where: str) -> Iterator[str]:
        for first in self.collections(links, where):
            for link, page in self._members(first):
                uri = self.uri(link, page)
                if uri and (uri in self.unreadable or self.json(uri, page) is None):
                    yield uri

    def _members(self, first: Collection) -> Iterator[tuple[str, str]]:
        """Yield the links of all members, each with the URI of its page; note missing members."""
        count = 0
        for page in self._pages(first):
            if page.json[MEMBERS] is None and page.count != 0:
                self.notes.skip(f"{page.uri}: found no members, expected a list of them")
                self.unreadable.add(page.uri)
            elif isinstance(page.json[MEMBERS], list):
                count += len(page.json[MEMBERS])
            for link in page.members:
                yield link, page.uri
        if count < (first.count or 0) and first.json[MEMBERS] is not None:
            first.remark(f"found {format_count(count, 'member')}, expected {first.count} ({COUNT})")

    def _pages(self, page: Collection) -> Iterator[Collection]:
        seen = {page.uri}
        while len(seen) < MAX_PAGES:
            yield page
            link = page.next_link
            uri = self.uri(link, page.uri) if link else None
            if uri is None:
                return
            if uri in seen:
                what = "found a link to an earlier page, expected the next page"
                self.notes.skip(f"{page.uri}: {what}")
                return
            if (json := self.json(uri, page.uri)) is None:
                return
            if MEMBERS not in json:
                self.notes.skip(f"{uri}: found no members, expected a page of {page.uri}")
                return
            seen.add(uri)
            page = Collection(uri, json, self.notes)

    def _refuse(self, key: str, where: str, found: str) -> None:
        if key not in self._refused:
            self._refused.add(key)
            self.notes.skip(f"{where}: found {found}")


def fold_uri(uri: str) -> str:
    return (unquote(uri) if "%" in uri else uri).casefold()


def host_and_path(link: str) -> tuple[str, str]:
    """Return the host of a URL, with the port unless it is the default port, and the path.

    An invalid URL has no host, and is itself the path.
    """
    try:
        parts = urlsplit(single_slash(link))
    except ValueError:
        return "", link
    host = parts.netloc.rpartition("@")[2].casefold().removesuffix(_PORTS.get(parts.scheme, " "))
    return host, parts.path + (f"?{parts.query}" if parts.query else "")


def single_slash(link: str) -> str:
    """Return a link with one slash at its start: some services send //redfish, which is no host."""
    return link[1:] if link[:10].casefold() == "//redfish/" else link


def link_path(link: str | None) -> str | None:
    """Return the path of a link to any host, None without a link."""
    return path_of(host_and_path(link)[1]) if link else None


def joined_path(at: str, link: str) -> str:
    """Return the path of a link to any host in the answer for the path ``at``.

    >>> joined_path("/redfish/v1/Systems", "https://h:8443/redfish/v1/Systems/1")
    '/redfish/v1/Systems/1'
    """
    with contextlib.suppress(ValueError):  # an invalid URL
        link = urljoin(at, link)
    return path_of(host_and_path(link)[1])


def collection_pages(read: Get, uri: str | None) -> Iterator[Collection]:
    """Yield the pages of a collection, each once, up to the first missing page."""
    seen: set[str] = set()
    while uri and uri not in seen and len(seen) < MAX_PAGES_UNBOUNDED:
        seen.add(uri)
        if (json := read(uri)) is None:
            return
        page = Collection(uri, json, NO_NOTES)
        yield page
        uri = link_path(page.next_link)


def whole_collection(read: Get, uri: str | None) -> Iterator[Collection]:
    """Yield the pages of a collection, none if it is missing; PodmError for a missing page."""

    def read_page(at: str) -> Json | None:
        if (json := read(at)) is None and at != uri:
            raise PodmError(f"{at}: found no such document, expected a page of {uri}")
        return json

    return collection_pages(read_page, uri)


def linked_members(read: Get, links: Iterable[str]) -> Iterator[str]:
    """Yield the URIs of linked documents, and of the members of linked collections.

    PodmError for a missing page of a collection.
    """
    for uri in link_paths(links):
        if MEMBERS not in (read(uri) or {}):
            yield uri
            continue
        for page in whole_collection(read, uri):
            yield from link_paths(page.members)


def link_paths(links: Iterable[str]) -> Iterator[str]:
    """Yield the path of each link to any host; links without a target are left out."""
    yield from filter(None, map(link_path, links))


def short_ids(uris: Iterable[str]) -> dict[str, str]:
    """Return the last part of each URI, or the whole URI if several URIs end with the same part."""
    lasts = {uri: uri.rpartition("/")[2] for uri in uris}
    counts = Counter(lasts.values())
    return {uri: last if counts[last] == 1 else uri for uri, last in lasts.items()}


class DocumentNotes:
    """The notes on the documents of one pod manager, each once."""

    def __init__(self) -> None:
        self._kinds: dict[str, Kind] = {}

    def skip(self, text: object) -> None:
        self._kinds.setdefault(str(text), "skipped")

    def remark(self, text: str) -> None:
        self._kinds.setdefault(text, "remark")

    def extend(self, found: Iterable[Diagnostic]) -> None:
        for kind, text in found:
            self._kinds.setdefault(text, kind)

    def diagnostics(self, file: str) -> Iterator[Diagnostic]:
        for text, kind in itertools.islice(self._kinds.items(), MAX_NOTES):
            yield Diagnostic(kind, one_line(f"{file}: {text}"))
        if len(self._kinds) > MAX_NOTES:
            more = len(self._kinds) - MAX_NOTES
            yield Diagnostic("skipped", f"{file}: and {more} more of this kind")
