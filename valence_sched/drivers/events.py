# SPDX-License-Identifier: Apache-2.0
"""Events of one pod manager: a stream or a subscription that yields hints of changes."""

import contextlib
import itertools
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from valence_sched.drivers.bounds import MIB
from valence_sched.drivers.composer import ACCEPTED, refusal, wait_for_task
from valence_sched.drivers.crawl.reading import ReadTarget
from valence_sched.drivers.document_shape import current_form
from valence_sched.drivers.fields import NO_NOTES, Field, Json, Resource, flag, links, text, words
from valence_sched.drivers.http.connection import Connection, enter_service
from valence_sched.drivers.http.exchange import GONE, Deadline, Patience, TlsContexts
from valence_sched.drivers.http.stdlib_transport import AnswerStream
from valence_sched.drivers.links import ROOT, collection_pages
from valence_sched.drivers.session import HttpSession
from valence_sched.errors import InputError, PodmError, SchedulerError, one_line
from valence_sched.model.podm_address import EventAddress

#: Services whose resources are not read. Each reading logs in, which is an event of SessionService:
#: as a hint it would cause another reading.
OTHER_SERVICES = frozenset(
    "SessionService AccountService EventService TaskService TelemetryService UpdateService "
    "CertificateService JobService LicenseService KeyService Registries JsonSchemas".lower().split()
)
#: Event types of services without a registry of resource messages.
TYPES = ("ResourceAdded", "ResourceRemoved", "ResourceUpdated", "StatusChange")
REGISTRIES = ("ResourceEvent", "Composition")
_MOST_TEXT = 120
#: Bytes of one event; a stream with a larger event is closed.
MAX_EVENT_BYTES = 1 * MIB
_END = re.compile(rb"\r\n|\n|\r")
STREAM_TYPE = "text/event-stream"
#: Seconds without a byte after which a stream is opened again: the connection may be lost.
QUIET_S = 900.0
#: A stream that sends more than these bytes within these seconds is closed.
MOST_BYTES, MOST_BYTES_S = 16 * MIB, 60.0
#: Seconds between checks that the subscription still exists, and seconds for its deletion.
CHECK_S, DELETE_S = 300.0, 3.0
#: The maximum number of subscriptions that are searched for those of an earlier process.
MOST_SUBSCRIPTIONS = 100


def hint_of(data: bytes) -> str | None:
    """Return the hint of an event by :func:`hint_of_records`, None if the event is unparsable."""
    try:
        event = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    records = event.get("Events") if isinstance(event, dict) else None
    return hint_of_records(records if isinstance(records, list) else ())


def hint_of_records(records: Iterable[Any]) -> str | None:
    """Return the name and origin of the first record that may change a reading, else None."""
    for record in (it for it in records if isinstance(it, dict)):
        linked = record.get("OriginOfCondition")  # a link; older services send text
        linked = linked.get("@odata.id") if isinstance(linked, dict) else linked
        values = (record.get("EventType"), record.get("MessageId"), linked)
        kind, message, origin = (value if isinstance(value, str) else "" for value in values)
        registry, _, rest = message.partition(".")
        name = rest.rpartition(".")[2] if registry in REGISTRIES and rest else kind
        inner = origin.lower().removeprefix(ROOT).strip("/").split("/")
        if origin and inner[0] not in OTHER_SERVICES and "logservices" not in inner:
            return one_line(f"{name or 'event'} {origin}", _MOST_TEXT)
        if not origin and name and (registry in REGISTRIES or kind in TYPES):
            return one_line(name, _MOST_TEXT)
    return None


class EventParser:
    """Parses a stream in pieces, and yields the data of each event at its end.

    Some services send JSON over several lines without a field name; such lines belong to the data.
    """

    def __init__(self, most: int = MAX_EVENT_BYTES) -> None:
        self._most = most
        self._line: list[bytes] = []  # pieces of an unfinished line
        self._data: list[bytes] = []
        self._size, self._after_return = 0, False

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield the events that a piece completes; PodmError if an event is too large."""
        if self._after_return and piece.startswith(b"\n"):
            piece = piece[1:]  # the second byte of a line end that was split between two pieces
        self._after_return = piece.endswith(b"\r") if piece else self._after_return
        *lines, rest = _END.split(piece)
        for line in lines:
            self._grow(line)
            whole, self._line = b"".join(self._line), []
            name, colon, value = whole.partition(b":")
            if not whole:
                data, self._data, self._size = b"\n".join(self._data), [], 0
                if data:
                    yield data
            elif name == b"data" and (colon or whole == b"data"):
                self._data.append(value.removeprefix(b" "))
            elif self._data and name not in (b"", b"id", b"event", b"retry"):
                self._data.append(whole)
            else:
                self._size -= len(whole)
        self._grow(rest)

    def _grow(self, part: bytes) -> None:
        self._line.append(part)
        self._size += len(part)
        if self._size > self._most:
            raise PodmError(f"sends an event of more than {self._most} bytes")


class NoEvents(PodmError):
    """A pod manager offers no event stream, or no subscriptions."""


class EventService(Resource):
    """EventService, read for its stream and its subscriptions."""

    enabled = Field("ServiceEnabled", flag, "whether the service sends events")
    stream_uri = Field("ServerSentEventUri", text, "the URI of its stream")
    subscriptions = Field("Subscriptions", links, "the collection of its subscriptions")
    registries = Field("RegistryPrefixes", words, "message registries that filters accept")
    types = Field("EventTypesForSubscription", words, "event types that filters accept")


def _event_services(connection: Connection) -> Iterator[EventService]:
    for link in links(current_form(enter_service(connection), root=True).get("EventService")):
        uri = connection.local_path(link) if link else ""
        answer = connection.get(uri) if uri else None
        if answer is not None and answer.status == 200:
            service = EventService(uri, answer.json(uri), NO_NOTES)
            if service.enabled is not False:
                yield service


class EventStream:
    """The stream of one pod manager, which ends after ``quiet_s`` without a byte."""

    def __init__(
        self,
        target: ReadTarget,
        timeout_s: float,
        tls: TlsContexts | None = None,
        *,
        quiet_s: float = QUIET_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._quiet_s, self._clock = quiet_s, clock
        deadline = Deadline(timeout_s)
        self._connection = Connection(target.registered, target.password, deadline, tls=tls)

    def follow(self, opened: Callable[[], object], hint: Callable[[str], object]) -> None:
        """Call ``opened`` once the stream is open, then ``hint`` for each event about a resource.

        Return when the pod manager ends the stream, after deleting the session. NoEvents: it offers
        no stream. PodmError, InputError: it does not answer, refuses the login, sends too much, or
        sends another content type than an event stream.
        """
        with self._connection, contextlib.closing(self._open()) as stream:
            opened()
            parser, since, received = EventParser(), self._clock(), 0
            while piece := stream.read(self._quiet_s):
                if self._clock() - since >= MOST_BYTES_S:
                    since, received = self._clock(), 0
                received += len(piece)
                if received > MOST_BYTES:
                    raise PodmError(f"sends more than {MOST_BYTES} bytes of events in a minute")
                for found in filter(None, map(hint_of, parser.feed(piece))):
                    hint(found)

    def cut(self) -> None:
        self._connection.cut()

    def _open(self) -> AnswerStream:
        found = (it.stream_uri for it in _event_services(self._connection) if it.stream_uri)
        if (uri := next(found, None)) is None:
            raise NoEvents("offers no event stream")
        stream = self._connection.open_stream(self._connection.local_path(uri))
        kind = stream.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if stream.status == 200 and kind == STREAM_TYPE:
            return stream
        stream.close()
        if 300 <= stream.status < 400:
            raise PodmError("redirects its event stream, and redirects are not followed")
        what = f"HTTP {stream.status}" if stream.status != 200 else (kind or "no content type")
        raise PodmError(f"its event stream: found {what}, expected {STREAM_TYPE}")


class SubscriptionLeft(PodmError):
    """A subscription that could not be deleted: the pod manager keeps sending events to it."""


class EventDestination(Resource):
    """EventDestination, a subscription."""

    destination = Field("Destination", text, "the receiver of its events")
    context = Field("Context", text, "the text of the client that created it")


class EventSubscription:
    """The subscription of one pod manager, which is checked every ``check_s``."""

    def __init__(
        self,
        target: ReadTarget,
        address: EventAddress,
        timeout_s: float,
        tls: TlsContexts | None = None,
        *,
        check_s: float = CHECK_S,
    ) -> None:
        self._target, self._address, self._tls = target, address, tls
        self._timeout_s, self._check_s = timeout_s, check_s
        self._destination = address.destination(target.registered.name)
        self._context = f"valence-sched {secrets.token_hex(8)}"
        self._ended = threading.Event()
        self._current: Connection | None = None

    def follow(self, opened: Callable[[], object], _hint: Callable[[str], object]) -> None:
        """Subscribe, and call ``opened``; after :meth:`cut`, delete the subscription and return.

        Subscriptions of an earlier process to this address are deleted first. NoEvents: the pod
        manager offers no subscriptions. SubscriptionLeft: the subscription could not be deleted.
        PodmError, InputError: the pod manager does not answer, refuses the subscription, or has
        deleted or changed it.
        """
        with self._connection(self._timeout_s) as connection:
            found = (it for it in _event_services(connection) if any(it.subscriptions))
            if (service := next(found, None)) is None:
                raise NoEvents("offers neither an event stream nor subscriptions")
            collection = connection.local_path(next(filter(None, service.subscriptions)))
            self._delete_leftovers(connection, collection)
            filters: Json = {}  # only events of resources, if the service has such filters
            if registries := [one for one in REGISTRIES if one in service.registries]:
                filters["RegistryPrefixes"] = registries
            elif types := [one for one in TYPES if one in service.types]:
                filters["EventTypes"] = types
            uri = self._create(connection, collection, filters)
        try:
            self._check(uri)
            opened()
            while not self._ended.wait(self._check_s):
                self._check(uri)
        except SchedulerError:
            if self._ended.is_set():
                return
            raise
        finally:
            self._delete(uri)

    def cut(self) -> None:
        self._ended.set()
        if (connection := self._current) is not None:
            connection.cut()

    def _connection(self, timeout_s: float) -> Connection:
        target = self._target
        made = Connection(target.registered, target.password, Deadline(timeout_s), tls=self._tls)
        self._current = made
        return made

    def _delete_leftovers(self, connection: Connection, collection: str) -> None:
        # list all before deleting: a deletion moves the others to other pages
        for uri, found in tuple(_destinations(connection, collection)):
            if self._address.owns(found.destination or ""):
                connection.write("DELETE", uri)

    def _create(self, connection: Connection, collection: str, filters: Json) -> str:
        body = {"Destination": self._destination, "Protocol": "Redfish", "Context": self._context}
        session = HttpSession(connection, self._timeout_s)
        patience = Patience(self._timeout_s, sleep=self._ended.wait)
        reply = session.post(collection, body | filters)
        last, goes_on = wait_for_task(session, collection, reply, patience, self._check_ended)
        if goes_on:
            raise PodmError("accepted the event subscription, but did not create it in time")
        is_lost = reply.status == ACCEPTED and last.status in GONE  # a task that has ended
        if not is_lost and (reason := refusal(last)):
            raise PodmError(f"refuses to send events: {self._without_secret(reason)}")
        stated = last.body or {}
        link = last.headers.get("Location") or stated.get("@odata.id")
        if not is_lost and "TaskState" not in stated and link and isinstance(link, str):
            return connection.local_path(link, collection)
        every = _destinations(connection, collection)
        if (uri := next((uri for uri, it in every if self._owns(it)), None)) is None:
            raise PodmError("created a subscription without its URI in the answer")
        return uri

    def _check_ended(self, _state: str) -> None:
        if self._ended.is_set():
            raise PodmError("interrupted before the event subscription was created")

    def _check(self, uri: str) -> None:
        with self._connection(self._timeout_s) as connection:
            enter_service(connection)
            found = _destination(connection, uri)
        if found is None:
            raise PodmError("dropped the event subscription")
        if not self._owns(found):
            raise PodmError("changed the requested event subscription")

    def _delete(self, uri: str) -> None:
        try:
            with self._connection(DELETE_S) as connection:
                enter_service(connection)
                found = _destination(connection, uri)
                if found is None or not self._owns(found):
                    return
                session = HttpSession(connection, DELETE_S)
                wait_for_task(session, uri, session.delete(uri), Patience(DELETE_S))
                if _destination(connection, uri) is not None:
                    raise PodmError("it still exists")
        except SchedulerError as error:
            reason = self._without_secret(str(error))
            raise SubscriptionLeft(f"its event subscription was not deleted: {reason}") from None

    def _owns(self, found: EventDestination) -> bool:
        if found.context:  # some services return no context
            return found.context == self._context
        return found.destination == self._destination

    def _without_secret(self, reason: str) -> str:
        return reason.replace(self._destination, "(the destination)")


class PushedEvents:
    """The stream of one pod manager, or a subscription if it offers no stream."""

    def __init__(self, stream: EventStream, subscription: EventSubscription) -> None:
        self._stream, self._subscription = stream, subscription

    def follow(self, opened: Callable[[], object], hint: Callable[[str], object]) -> None:
        try:
            self._stream.follow(opened, hint)
        except NoEvents:
            self._subscription.follow(opened, hint)

    def cut(self) -> None:
        self._subscription.cut()
        self._stream.cut()


def _destination(connection: Connection, uri: str) -> EventDestination | None:
    answer = connection.get(uri)
    if answer.status in GONE:
        return None
    if answer.status != 200:
        raise InputError(uri, "", f"HTTP {answer.status}", "a subscription")
    return EventDestination(uri, answer.json(uri), NO_NOTES)


def _destinations(
    connection: Connection, collection: str
) -> Iterator[tuple[str, EventDestination]]:
    """Yield the first subscriptions with their URIs, without those that are unreadable."""

    def read(uri: str) -> Json | None:
        answer = connection.get(uri)
        return answer.json(uri) if answer.status == 200 else None

    members = (link for page in collection_pages(read, collection) for link in page.members)
    for link in filter(None, itertools.islice(members, MOST_SUBSCRIPTIONS)):
        with contextlib.suppress(InputError):
            uri = connection.local_path(link)
            if (found := _destination(connection, uri)) is not None:
                yield uri, found
