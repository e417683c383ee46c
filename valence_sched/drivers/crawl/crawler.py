# SPDX-License-Identifier: Apache-2.0
"""The crawler: fetches the documents of one pod manager in parallel, ahead of the reader."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from valence_sched.drivers.bounds import MAX_DOCUMENT_BYTES, MAX_DOCUMENTS
from valence_sched.drivers.crawl.cache import DocumentCache, Start
from valence_sched.drivers.document_shape import MEMBERS, ShapeMemo, check_content, object_of
from valence_sched.drivers.fields import MAX_TEXT, NO_NOTES, Json, Parts, Resource, flag, number
from valence_sched.drivers.http.exchange import GONE, Answer, Cut, Slow, Unreachable, is_outage
from valence_sched.drivers.links import ROOT, LinkedDocuments, fold_uri, path_of, places_below
from valence_sched.drivers.redfish.schema import Collection
from valence_sched.errors import InputError, PodmError

T = TypeVar("T")
#: The maximum bytes of an expanded answer; a longer one is requested again with fewer levels.
MAX_EXPANDED_BYTES = 4 * MAX_DOCUMENT_BYTES
#: The share of the remaining time for an expanded answer; the rest is for plain answers.
TIME_SHARE = 0.5
#: The maximum number of dangling links to try at other URIs before the first success.
MAX_TRIALS = 100


class FetchTask(NamedTuple):
    """A document to fetch: its URI, case-folded URI and resource class, and levels to expand.

    ``parent`` is the document with the link. If there is no document at ``uri``, the URIs
    ``instead`` are tried; they are None until ``uri`` has been tried.
    """

    uri: str
    key: str
    to: type[Resource]
    levels: int = 0
    parent: str = ""
    instead: tuple[str, ...] | None = None

    def next_place(self) -> FetchTask | None:
        places = self.instead
        if places is None:
            places = tuple(places_below(self.parent, self.uri))
        if not places:
            return None
        return self._replace(uri=places[0], key=fold_uri(places[0]), instead=places[1:])


class ExpandReader:
    """Reads documents by the ``get`` of a connection, up to ``levels`` levels in one answer."""

    def __init__(self, get: Callable[..., Answer]) -> None:
        self._get, self.levels = get, 0
        self._counted = False

    def read_features(self, root: Json) -> None:
        features: Any = root.get("ProtocolFeaturesSupported")
        query = features.get("ExpandQuery") if isinstance(features, dict) else None
        if not isinstance(query, dict) or not _value_of(flag, query.get("NoLinks")):
            return
        self._counted = bool(_value_of(flag, query.get("Levels")))
        self.levels = _value_of(number, query.get("MaxLevels")) or 1 if self._counted else 1

    def read(self, path: str, levels: int = 0, *, is_guess: bool = False) -> dict[str, Json]:
        """Return, by URI, the documents in the answer for a path; empty if the path is gone.

        InputError: the pod manager answers, but this document is unreadable. PodmError: the answer
        is late or truncated, or its status means an outage and the service itself links the path.
        """
        if "$expand" not in path:
            while most := min(levels, self.levels):
                if found := self._read_expanded(path, most):
                    return found
        uri = path_of(path)
        try:
            answer = self._get(path)
        except (Slow, Cut) as error:
            raise Unreachable(f"{uri}: {error}") from None
        if answer.status in GONE:
            return {}
        if is_outage(answer.status) and not is_guess:
            raise Unreachable(f"{uri}: found HTTP {answer.status}, expected a document")
        if answer.status >= 300:
            raise InputError(uri, "", f"HTTP {answer.status}", "a document")
        return {uri: _document(answer.json(uri), uri)}

    def _read_expanded(self, path: str, levels: int) -> dict[str, Json] | None:
        """Read documents with one expanded answer; on failure, lower ``levels`` and return None."""
        query = f"$expand=.($levels={levels})" if self._counted else "$expand=."
        target = path + ("&" if "?" in path else "?") + query
        try:
            answer = self._get(target, MAX_EXPANDED_BYTES, TIME_SHARE)
            if len(answer.body) > MAX_EXPANDED_BYTES:
                self.levels = min(self.levels, levels // 2)
                return None
            if answer.status == 200:
                uri = path_of(path)
                whole = _document(object_of(answer.body, uri), uri)
                found, bare = unfold(whole)
                if found or not bare:
                    return {uri: whole} | found
        except (InputError, RecursionError, Cut, Slow):
            pass  # a plain read gives a clearer error
        self.levels = 0
        return None


def unfold(whole: Json) -> tuple[dict[str, Json], int]:
    """Replace the documents inside an expanded document by links; count the unexpanded links."""
    found: dict[str, Json] = {}
    bare = 0
    stack: list[Any] = [whole]
    while stack:
        holder = stack.pop()
        places = holder.items() if type(holder) is dict else enumerate(holder)
        for place, value in places:  # the values change, the keys do not
            kind = type(value)
            if kind is not dict:
                if kind is list:
                    stack.append(value)
                continue
            uri = value.get("@odata.id")
            if isinstance(uri, str) and "#" not in uri:
                if len(value) == 1:
                    bare += place != "Links"
                    continue
                holder[place] = {"@odata.id": uri}
                if value.get("error") or "@odata.type" not in value or "Name" not in value:
                    continue
                if value.get("Id") in (None, "") and "Members" not in value:
                    continue
                found[uri] = value
            stack.append(value)
    return found, bare


def _document(json: Json, uri: str) -> Json:
    own = check_content(json, uri).get("@odata.id")
    if isinstance(own, str) and path_of(own) == ROOT != uri:
        raise InputError(uri, "", "the service root", "another document")
    return json


def _value_of(read: Callable[[Any], T | None], value: Any) -> T | None:
    try:
        return read(value)
    except ValueError:
        return None


class Crawler:
    """The documents of one pod manager; ``unplanned`` counts documents without a declared link."""

    def __init__(
        self, documents: ExpandReader, cache: DocumentCache, host: str, parallel: int, start: Start
    ):
        self._source, self._cache, self._parallel, self._start = documents, cache, parallel, start
        self._found: dict[str, Json] = {}
        self._levels: dict[str, int] = {}
        self._failed: dict[str, InputError | None] = {}
        self._spelled: dict[str, str] = {}
        self._exact: dict[str, tuple[str, str] | None] = {}
        self._tried: dict[str, set[str]] = {}
        self._pending: dict[str, list[FetchTask]] = {}
        self._visited: set[tuple[str, type[Resource]]] = set()
        self._deferred: dict[str, list[FetchTask]] = {}
        self._queue: deque[FetchTask] = deque()
        self._changed = threading.Condition()
        self._busy = self._threads = 0
        self._is_short, self._deep = False, True
        self._error: BaseException | None = None
        self._links = LinkedDocuments(lambda _: None, NO_NOTES, host=host)
        self._shapes = ShapeMemo()
        self._trials, self._aside = 0, list[FetchTask]()
        self.unplanned = 0

    def add(self, uri: str, json: Json) -> None:
        self._found[fold_uri(uri)] = json
        self._spell(fold_uri(uri), uri)

    def get(self, uri: str) -> Json | None:
        """Return a document, None if it is gone; KeyError if it was never requested."""
        key = fold_uri(uri)
        if key in self._found:
            return self._found[key]
        if (error := self._failed[key]) is not None:
            raise error
        return None

    def spelled_documents(self) -> Iterator[tuple[str, Json]]:
        for key, json in self._found.items():
            own, spelled = json.get("@odata.id"), self._spelled[key]
            if own != spelled and isinstance(own, str) and fold_uri(path_of(own)) == key:
                spelled = path_of(own)
            yield spelled, json

    def lasting_documents(self) -> dict[str, Json]:
        found = {key for key, to in self._visited if to.lasting and key in self._found}
        return {key: self._found[key] for key in found}

    @property
    def expands(self) -> bool:
        """Whether one answer may contain a document and all documents below it."""
        return self._source.levels > 0 and not self._cache.enabled

    def below(self, task: FetchTask) -> list[FetchTask]:
        return list(self._below(task, self._found[task.key]))

    def fetch(self, tasks: Iterable[FetchTask], *, deep: bool = True) -> None:
        self._deep = deep
        with self._changed:
            for one in tasks:
                self._enqueue(one)
        self._work()
        if self._error is not None:
            raise self._error

    def queue_deferred(self, uri: str) -> None:
        with self._changed:
            wants = self._deferred.pop(fold_uri(uri), [])
            for one in wants:
                self._enqueue(one)
            if not wants and fold_uri(uri) not in self._found:
                self.unplanned += 1
                self._enqueue(FetchTask(uri, fold_uri(uri), Resource))

    def _enqueue(self, want: FetchTask) -> None:
        todo = [want]
        while todo:
            want = todo.pop()
            key, to = want.key, want.to
            self._spell(key, want.uri)
            if key not in self._found and to.lasting and (cached := self._cache.get(key)):
                self._found[key] = cached
            if key in self._found:
                if want.instead is not None and not self._is_short:
                    self._is_short = True
                    todo += self._aside
                if self._deep and (key, to) not in self._visited:
                    self._visited.add((key, to))
                    todo += reversed(list(self._below(want, self._found[key])))
            elif key in self._pending:
                self._pending[key].append(want)
            elif want.uri not in self._tried.get(key, ()):
                self._pending[key] = [want]
                self._queue.append(want)
            elif self._failed[key] is None:  # the document is gone: the link may mean another URI
                is_trial = want.instead is None and not self._is_short
                if is_trial and self._trials >= MAX_TRIALS:
                    self._aside.append(want)
                    continue
                self._trials += is_trial
                if place := want.next_place():
                    todo.append(place)

    def _below(self, want: FetchTask, json: Json) -> Iterator[FetchTask]:
        json = self._shapes.current_form(json, root=want.uri == ROOT)
        if MEMBERS not in json:
            yield from self._linked_tasks(want.to(want.uri, json, NO_NOTES), want.uri)
            return
        page = Collection(want.uri, json, NO_NOTES)
        yield from self._tasks_for(page.members, want.to, 0, want.uri)
        if page.next_link:
            yield from self._tasks_for([page.next_link], want.to, want.levels, want.uri)
        yield from self._linked_tasks(page, want.uri)

    def _linked_tasks(self, resource: Resource, parent: str) -> Iterator[FetchTask]:
        if not resource.leads:
            return
        for way in resource.link_fields:
            if not (raw := resource.json.get(way.first) and way.raw(resource)):
                continue
            if isinstance(way, Parts):
                for json in way.of(resource):
                    yield from self._linked_tasks(resource.part(way.to, json, way.path), parent)
                continue
            levels = 0 if isinstance(raw, list) else self._cache.levels(way)
            for named in self._tasks_for(way.of(resource), way.to, levels, parent):
                if way.late:
                    self._deferred.setdefault(named.key, []).append(named)
                else:
                    yield named

    def _tasks_for(
        self, targets: Iterable[str], to: type[Resource], levels: int, parent: str
    ) -> Iterator[FetchTask]:
        for target in targets:
            if named := self._resolve(target):
                yield FetchTask(*named, to, levels, parent)

    def _resolve(self, target: str) -> tuple[str, str] | None:
        """Return the URI of a link and its case-folded form, None for another host."""
        named = self._exact.get(target)
        if named is not None or target in self._exact:
            return named
        is_path = target[:1] == "/" and "://" not in target and len(target) <= MAX_TEXT
        if is_path or self._links.uri(target, target) is not None:
            uri = path_of("/" + target.split("/", 3)[-1] if "://" in target else target)
            named = (uri, fold_uri(uri)) if uri else None
        self._exact[target] = named
        return named

    def _work(self) -> None:
        try:
            while want := self._next():
                found: dict[str, Json] | InputError
                try:
                    is_guess = want.instead is not None
                    found = self._source.read(want.uri, want.levels, is_guess=is_guess)
                except InputError as error:
                    found = error
                with self._changed:
                    self._busy -= 1
                    self._store_result(want, found)
                    self._changed.notify_all()
        except BaseException as error:
            with self._changed:  # raised by the thread that called fetch
                self._error = self._error or error
                self._changed.notify_all()

    def _next(self) -> FetchTask | None:
        with self._changed:
            while self._error is None:
                while self._queue:
                    want = self._queue.popleft()
                    if want.key in self._found:  # another answer contained it
                        self._store_result(want, {})
                        continue
                    self._busy += 1
                    if self._queue and self._busy == 1 + self._threads < self._parallel:
                        self._threads += self._start(self._work_as_helper, len(self._queue))
                    return want
                if not self._busy:
                    break
                self._changed.wait()
            self._changed.notify_all()
            return None

    def _work_as_helper(self) -> None:
        try:
            self._work()
        finally:
            with self._changed:
                self._threads -= 1
                self._changed.notify_all()

    def _store_result(self, want: FetchTask, found: dict[str, Json] | InputError) -> None:
        key = want.key
        self._tried.setdefault(key, set()).add(want.uri)
        if isinstance(found, dict):
            for uri, json in found.items():
                self._keep(uri, json, want.levels)
        wants = self._pending.pop(key, [want])
        if key not in self._found:
            self._failed[key] = found if isinstance(found, InputError) else None
        if len(self._found) + len(self._failed) > MAX_DOCUMENTS:
            raise PodmError(f"links more than {MAX_DOCUMENTS} documents")
        for other in wants:
            self._enqueue(other)

    def _spell(self, key: str, uri: str) -> None:
        """Add a spelling of a URI; the first in document order counts, even if read later."""
        first = self._spelled.setdefault(key, uri)
        if first is not uri and uri < first:
            self._spelled[key] = uri

    def _keep(self, uri: str, json: Json, levels: int) -> None:
        """Keep a document; of two different copies, keep the copy from the less expanded answer.

        Copies differ if a document misspells its own URI: expanding changes the links to it.
        Answers arrive in random order.
        """
        if named := self._resolve(uri):
            exact, key = named
            known = self._found.setdefault(key, json)
            if known is json:
                if levels:
                    self._levels[key] = levels
            elif known != json and levels < self._levels.get(key, 0):
                self._found[key], self._levels[key] = json, levels
            self._spell(key, exact)
