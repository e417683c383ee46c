# SPDX-License-Identifier: Apache-2.0
"""The document tree of a simulated pod manager, its links and collections, and its replies."""

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec

from valence_sched.drivers.fields import Json as Json, links
from valence_sched.drivers.links import ROOT, path_of
from valence_sched.drivers.redfish.render import (
    collection_document as collection_document,
    links_to as links_to,
    resource_document as resource_document,
)
from valence_sched.model.base import digest_of

OK = {"State": "Enabled", "Health": "OK"}  # the status of working resources
MOST_CHANGES = 10_000  # stored for event streams
MISSING, WRONG_TYPE = "CreateFailedMissingReqProperties", "PropertyValueTypeError"
MISSING_AT = "ResourceMissingAtURI"
#: Prefixes of the messages of the composition registry; all others are of Base.
COMPOSITION_MESSAGES: tuple[str, ...] = ("ResourceBlock", "EmptyManifest", "UnableToProcess")
COMPOSITION_MESSAGES += ("NoResourceMatch", "IncompatibleZone", "SpecifiedResourceAlready")


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An HTTP answer: status, JSON body (None: empty) and headers."""

    status: int
    body: Json | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class DocumentChange(NamedTuple):
    """A change of a document, by its number."""

    number: int
    kind: Literal["ResourceAdded", "ResourceUpdated", "ResourceRemoved"]
    uri: str


class DocumentTree:
    """Redfish documents; ``changes`` counts changes. A slash at the end of a URI is ignored."""

    def __init__(self, documents: Mapping[str, Json]) -> None:
        own: dict[str, Json] = msgspec.json.decode(msgspec.json.encode(documents))
        self._documents = {_key(uri): json for uri, json in own.items()}
        self.changes = 0
        self._recent: deque[DocumentChange] = deque(maxlen=MOST_CHANGES)

    def __contains__(self, uri: str) -> bool:
        return _key(uri) in self._documents

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._documents))

    def get(self, uri: str) -> Json | None:
        """Return the document at a URI; change it through :meth:`put` only."""
        return self._documents.get(_key(uri))

    def put(self, uri: str, json: Json) -> None:
        key = _key(uri)
        known = key in self._documents
        self._documents[key] = json
        self.changes += 1
        kind: Any = "ResourceUpdated" if known else "ResourceAdded"
        self._recent.append(DocumentChange(self.changes, kind, key))

    def put_resource(self, uri: str, type_: str, name: str = "", **properties: Any) -> Json:
        """Put and return the document of a resource; the name defaults to its Id."""
        json = resource_document(uri, type_, name, **properties)
        self.put(uri, json)
        return json

    def put_collection(self, uri: str, type_: str, name: str, members: Iterable[str] = ()) -> None:
        self.put(uri, collection_document(uri, type_, name, members))

    def update(self, uri: str, **changes: Any) -> None:
        if (json := self.get(uri)) is not None:
            self.put(uri, {**json, **changes})

    def remove(self, uri: str) -> None:
        if self._documents.pop(_key(uri), None) is not None:
            self.changes += 1
            self._recent.append(DocumentChange(self.changes, "ResourceRemoved", _key(uri)))

    def etag(self, uri: str) -> str:
        return etag_of(msgspec.json.encode(self.get(uri)))

    def copy(self) -> Mapping[str, Json]:
        return dict(self._documents)

    def restore(self, copy: Mapping[str, Json]) -> None:
        before, self._documents = self._documents, dict(copy)
        self.changes += 1
        for uri, json in self._documents.items():
            if before.pop(uri, None) is not json:
                self._recent.append(DocumentChange(self.changes, "ResourceUpdated", uri))
        for uri in before:
            self._recent.append(DocumentChange(self.changes, "ResourceRemoved", uri))

    def changes_since(self, number: int) -> list[DocumentChange]:
        """Return the changes after the ``number``-th, at most the last ``MOST_CHANGES``."""
        return [change for change in tuple(self._recent) if change.number > number]

    def free_id(self, collection: str) -> str:
        listed = {_key(uri) for uri in self.member_uris(collection)}  # some are deleted
        places = ((str(id_), f"{collection}/{id_}") for id_ in itertools.count(1))
        return next(id_ for id_, uri in places if uri not in self and _key(uri) not in listed)

    def member_uris(self, collection: str) -> list[str]:
        return uris_at(self.get(collection), "Members")

    def linked(self, links: Any) -> list[tuple[str, Json]]:
        """Return the linked documents, and the members of linked collections."""
        found: dict[str, Json] = {}
        for uri in uris(links):
            json = self.get(uri) or {}
            for member in uris(json["Members"]) if "Members" in json else [uri]:
                if (document := self.get(member)) is not None:
                    found.setdefault(member, document)
        return list(found.items())

    def add_member(self, collection: str, json: Json) -> None:
        """Put a document and list it in its collection, if that exists."""
        self.put(json["@odata.id"], json)
        self.list_member(collection, json["@odata.id"])

    def remove_member(self, collection: str, uri: str) -> None:
        self.remove(uri)
        self.unlist_member(collection, uri)

    def remove_below(self, uri: str) -> None:
        for other in self:
            if other == uri or other.startswith(f"{uri}/"):
                self.remove(other)

    def list_member(self, collection: str, uri: str) -> None:
        self._replace_member(collection, uri, links_to([uri]))

    def unlist_member(self, collection: str, uri: str) -> None:
        self._replace_member(collection, uri, [])

    def _replace_member(self, collection: str, uri: str, links: list[Json]) -> None:
        json = self.get(collection)
        others = [link for link in array_of(json, "Members") if uri_of(link) != path_of(uri)]
        now = [*others, *links]
        self.update(collection, **{"Members": now, "Members@odata.count": len(now)})


def etag_of(body: bytes) -> str:
    return f'W/"{digest_of(body, 8)}"'


def _key(uri: str) -> str:
    return uri.partition("#")[0].rstrip("/") or "/"


def uri_of(link: Any) -> str:
    """Return the path of a link object, empty if it is not a link."""
    uri = links(link)[0] if isinstance(link, dict) else ""
    try:
        return uri and path_of(urlsplit(uri).path if "://" in uri else uri)
    except ValueError:
        return ""


def uris(value: Any) -> list[str]:
    """Return the paths of an array of links, or of one link; each once."""
    items = [value] if isinstance(value, dict) else value
    found = map(uri_of, items if isinstance(items, list) else [])
    return list(dict.fromkeys(filter(None, found)))


def value_at(json: Json | None, *keys: str) -> Any:
    value: Any = json
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def uri_at(json: Json | None, *keys: str) -> str:
    return uri_of(value_at(json, *keys))


def uris_at(json: Json | None, *keys: str) -> list[str]:
    return uris(value_at(json, *keys))


def object_of(json: Json | None, key: str) -> Json:
    found = value_at(json, key)
    return found if isinstance(found, dict) else {}


def array_of(json: Json | None, key: str) -> list[Any]:
    found = value_at(json, key)
    return found if isinstance(found, list) else []


def number_of(value: Any, otherwise: int = 0) -> int:
    """Return a whole number unchanged, the default for any other value."""
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise


def composition_service(documents: DocumentTree) -> Json | None:
    return documents.get(uri_at(documents.get(ROOT), "CompositionService"))


class RequestRefused(Exception):
    """A refused request; nothing was changed."""

    def __init__(self, status: int, id_: str, text: str, *args: str) -> None:
        super().__init__(text)
        self.answer = refusal(status, id_, text, *args)


def linked_by(body: Json, name: str) -> list[str]:
    """Return the URIs of a list in ``Links`` of a body; RequestRefused for another form."""
    links = value_at(body, "Links", name)
    if not isinstance(links, list) or not all(map(uri_of, links)):
        text = f"Links.{name} is not an array of links."
        raise RequestRefused(400, WRONG_TYPE, text, str(links)[:200], name)
    return uris(links)


def refusal(status: int, id_: str, text: str, *args: str) -> HttpReply:
    return HttpReply(status, error_body(id_, text, *args))


def error_body(id_: str, text: str, *args: str, severity: str = "Critical") -> Json:
    registry = "Composition.1.1.3" if id_.startswith(COMPOSITION_MESSAGES) else "Base.1.18.1"
    code = f"{registry}.{id_}"
    message: Json = {"@odata.type": "#Message.v1_2_0.Message", "MessageId": code, "Message": text}
    message |= {"MessageArgs": list(args), "MessageSeverity": severity, "Severity": severity}
    cure = "None." if severity == "OK" else "Correct the request and send it again."
    message["Resolution"] = cure
    return {"error": {"code": code, "message": text, "@Message.ExtendedInfo": [message]}}


def not_found(uri: str) -> HttpReply:
    return refusal(404, MISSING_AT, f"There is no resource at {uri}.", uri)


def method_not_allowed(method: str, uri: str) -> HttpReply:
    text = f"{uri} does not allow the method {method}."
    return HttpReply(405, error_body("OperationNotAllowed", text), {"Allow": "GET, HEAD"})
