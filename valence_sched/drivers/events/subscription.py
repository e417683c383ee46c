# SPDX-License-Identifier: Apache-2.0
"""Event subscription: lets one pod manager send its events to a URL, for those without a stream.

The events arrive elsewhere; here the subscription is made, looked at, and deleted in the end.
"""

from __future__ import annotations

import itertools
import secrets
import threading
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urljoin

from valence_sched.drivers.composer import Reply
from valence_sched.drivers.crawl.reading import ReadTarget
from valence_sched.drivers.document_shape import current_form
from valence_sched.drivers.events.hint import REGISTRIES, TYPES
from valence_sched.drivers.events.stream import EventStream, NoEvents
from valence_sched.drivers.fields import NO_NOTES, Field, Json, Resource, flag, links, text, words
from valence_sched.drivers.http.connection import Connection
from valence_sched.drivers.http.exchange import GONE, Answer, Deadline
from valence_sched.drivers.http.service_root import enter_service
from valence_sched.drivers.http.tls import TlsContexts
from valence_sched.drivers.links import collection_pages
from valence_sched.drivers.refusals import refusal
from valence_sched.errors import InputError, PodmError, SchedulerError
from valence_sched.model.event_address import EventAddress

#: Seconds between looks at whether the subscription is still there.
CHECK_S = 300.0
#: Subscriptions of a pod manager that are looked at for ones that an earlier process left.
MOST_SUBSCRIPTIONS = 100
#: Seconds that the deletion may take.
DELETE_S = 3.0


class SubscriptionLeft(PodmError):
    """A subscription that could not be deleted: the pod manager goes on sending to it."""


class PushService(Resource):
    """EventService, for its subscriptions."""

    enabled = Field("ServiceEnabled", flag, "whether it sends events")
    registries = Field("RegistryPrefixes", words, "the registries of messages it filters by")
    types = Field("EventTypesForSubscription", words, "the types of events it filters by")


class EventDestination(Resource):
    """EventDestination, a subscription."""

    destination = Field("Destination", text, "where its events go")
    context = Field("Context", text, "the words of the client that made it")


class _Offer(NamedTuple):
    collection: str
    filters: Json


class EventSubscription:
    """The subscription of one pod manager; :meth:`cut` ends it, also for a thread that follows it.

    ``check_s`` is how often it is read. A pod manager drops one when its events were not taken.
    """

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
        """Subscribe, and call ``opened``; return once it is cut and the subscription deleted.

        Subscriptions that an earlier process left at this address are deleted first.

        Raises:
            NoEvents: the pod manager offers no subscriptions.
            SubscriptionLeft: the subscription could not be deleted.
            PodmError, InputError: it does not answer, refuses, makes another subscription than was
                asked for, or has dropped it.
        """
        with self._connection(self._timeout_s) as connection:
            offer = self._offer(connection)
            self._delete_leftovers(connection, offer.collection)
            uri = self._create(connection, offer)
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
        """End it."""
        self._ended.set()
        if (connection := self._current) is not None:
            connection.cut()

    def _connection(self, timeout_s: float) -> Connection:
        target = self._target
        made = Connection(target.registered, target.password, Deadline(timeout_s), tls=self._tls)
        self._current = made
        return made

    def _offer(self, connection: Connection) -> _Offer:
        root = enter_service(connection)
        entries = current_form(root, root=True) if root is not None else {}
        for link in links(entries.get("EventService")):
            uri = connection.local_path(link) if link else ""
            answer = connection.get(uri) if uri else None
            if answer is None or answer.status != 200:
                continue
            document = answer.json(uri)
            service = PushService(uri, document, NO_NOTES)
            collections = [one for one in links(document.get("Subscriptions")) if one]
            if collections and service.enabled is not False:
                return _Offer(connection.local_path(collections[0]), _filters(service))
        raise NoEvents("offers neither an event stream nor subscriptions")

    def _delete_leftovers(self, connection: Connection, collection: str) -> None:
        def read(uri: str) -> Json | None:
            answer = connection.get(uri)
            return answer.json(uri) if answer.status == 200 else None

        pages = collection_pages(read, collection)
        # all before the first is deleted: that moves the others from page to page
        members = (link for page in pages for link in page.members)
        for link in tuple(itertools.islice(members, MOST_SUBSCRIPTIONS)):
            uri = connection.local_path(link) if link else ""
            found = _destination(connection, uri) if uri else None
            if found is not None and self._address.owns(found.destination or ""):
                connection.delete(uri)

    def _create(self, connection: Connection, offer: _Offer) -> str:
        body = {
            "Destination": self._destination,
            "Protocol": "Redfish",
            "Context": self._context,
            **offer.filters,
        }
        answer = connection.post(offer.collection, body)
        if reason := _refusal(answer, offer.collection):
            raise PodmError(f"refuses to send events: {self._plain(reason)}")
        location = next(
            (value for name, value in answer.headers.items() if name.lower() == "location"), None
        )
        link = location or (answer.json(offer.collection).get("@odata.id") if answer.body else None)
        if not isinstance(link, str) or not link:
            raise PodmError("made a subscription without saying where it is")
        return connection.local_path(urljoin(offer.collection, link))

    def _check(self, uri: str) -> None:
        """Raise PodmError unless the pod manager has the subscription that was asked for."""
        with self._connection(self._timeout_s) as connection:
            enter_service(connection)
            found = _destination(connection, uri)
        if found is None:
            raise PodmError("has dropped its subscription to events")
        if not self._owns(found):
            raise PodmError("has another subscription to events than was asked for")

    def _delete(self, uri: str) -> None:
        """Delete the subscription, unless another one stands in its place by now."""
        try:
            with self._connection(DELETE_S) as connection:
                enter_service(connection)
                found = _destination(connection, uri)
                if found is None or not self._owns(found):
                    return
                connection.delete(uri)
                if _destination(connection, uri) is not None:
                    raise PodmError("it is still there")
        except SchedulerError as error:
            reason = self._plain(str(error))
            raise SubscriptionLeft(f"its subscription to events stays: {reason}") from None

    def _owns(self, found: EventDestination) -> bool:
        """Return whether a subscription is this one; some services tell no context."""
        if found.context:
            return found.context == self._context
        return found.destination == self._destination

    def _plain(self, reason: str) -> str:
        """Return a reason without the secret, which the pod manager may repeat."""
        return reason.replace(self._destination, "(the destination)")


class PushedEvents:
    """The stream of one pod manager, or where it offers none a subscription."""

    def __init__(self, stream: EventStream, subscription: EventSubscription) -> None:
        self._stream, self._subscription = stream, subscription

    def follow(self, opened: Callable[[], object], hint: Callable[[str], object]) -> None:
        """Follow the one or the other; errors as for both."""
        try:
            self._stream.follow(opened, hint)
        except NoEvents:
            self._subscription.follow(opened, hint)

    def cut(self) -> None:
        """End both."""
        self._subscription.cut()
        self._stream.cut()


def _filters(service: PushService) -> Json:
    """Return what of its filters is asked for: events of resources, as far as it tells them."""
    if registries := [one for one in REGISTRIES if one in service.registries]:
        return {"RegistryPrefixes": registries}
    types = [one for one in TYPES if one in service.types]
    return {"EventTypes": types} if types else {}


def _destination(connection: Connection, uri: str) -> EventDestination | None:
    """Return the subscription at a URI, None where there is none."""
    answer = connection.get(uri)
    if answer.status in GONE:
        return None
    if answer.status != 200:
        raise InputError(uri, "", f"HTTP {answer.status}", "a subscription")
    return EventDestination(uri, answer.json(uri), NO_NOTES)


def _refusal(answer: Answer, uri: str) -> str | None:
    body = None
    if answer.body:
        try:
            body = answer.json(uri)
        except InputError:
            body = None  # the status counts
    return refusal(Reply(answer.status, answer.headers, body))
