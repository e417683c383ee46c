# SPDX-License-Identifier: Apache-2.0
"""Dispatch: decisions sent to an external composer, and hints over a message broker."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple, Protocol

from msgspec import Meta, Struct

from valence_sched.errors import InputError, one_line
from valence_sched.model.base import Noun
from valence_sched.model.decision import Placement, Recording, Report
from valence_sched.model.inventory import Name
from valence_sched.model.need import Alternative
from valence_sched.model.quantity import format_count
from valence_sched.model.registration import VARIABLE, PasswordReference

Word = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,100}$")]


@dataclass(frozen=True, slots=True)
class Order:
    """A decision to dispatch: its document as bytes, and its nodes.

    ``alternatives`` are the alternatives of the request that the nodes fulfil. ``key`` signs the
    document; it is never printed. ``recording`` names the pod managers that were not read live; a
    dispatcher must send ``recording`` even if it does not send the document. ``again`` is true if
    the order of this ``id`` was sent before and got no answer. ``claim`` is the claim that holds
    the hardware. ``login`` is a user name and a password.
    """

    report: bytes
    placements: tuple[Placement, ...]
    name: str
    alternatives: tuple[Alternative, ...]
    key: bytes | None = field(default=None, repr=False)
    timeout_s: float = 30.0
    recording: Recording | None = None
    id: str | None = None
    again: bool = False
    claim: str | None = None
    login: tuple[str, str] | None = field(default=None, repr=False)


class Receipt(Struct, frozen=True, kw_only=True):
    """The composer's answer for some nodes of an order; ``nodes`` are their numbers."""

    nodes: tuple[int, ...]
    podm: str
    status: int
    reference: str | None = None


Receipts = tuple[Receipt, ...]


class Dispatch(Struct, frozen=True, kw_only=True):
    """A decision that will be posted to a controller, or was posted, with the answers.

    ``id`` is the id of the decision, or of the ``claim`` that holds its hardware. Times are by the
    clock of the database.
    """

    number: int
    id: str
    claim: str | None
    report: Report
    queued_at: float
    attempts: int
    error: str | None = None
    sent_at: float | None = None
    receipts: Receipts = ()

    def __str__(self) -> str:
        podms = ", ".join(dict.fromkeys(one.chosen.podm for one in self.report.placements))
        kind = "decision" if self.claim is None else "claim"
        words = f"waiting, posted {format_count(self.attempts, 'time')}"
        if self.sent_at is not None:
            answers = (f"HTTP {one.status} {one.reference or ''}".rstrip() for one in self.receipts)
            words = f"accepted: {', '.join(answers)}"
        elif self.error is not None:
            words = f"{words}: {self.error}"
        return one_line(f"{kind} {self.id} on {podms}: {words}")


class WaitingDispatches(NamedTuple):
    """The numbers of waiting and of failed dispatches, and the age of the oldest."""

    total: int
    failed: int
    oldest_s: float


class DispatchSettings(Noun, frozen=True, kw_only=True):
    """The controller that decisions are posted to, as ``webhook=https://host/path``.

    Each stored or claimed decision is posted at least once, unless its claim ends before; decisions
    of one request are posted in order. ``key`` refers to the signing key, ``password`` to the
    password of ``username``. The controller must answer within ``timeout_s``. The pause after a
    failure doubles, up to ``max_interval_s``.
    """

    target: str
    username: str | None = None
    password: PasswordReference | None = None
    key: PasswordReference | None = None
    timeout_s: Annotated[float, Meta(gt=0, le=3600)] = 30.0
    max_interval_s: Annotated[float, Meta(gt=0, le=86400)] = 60.0


class Dispatcher(Protocol):
    """A function of the entry point group ``valence_sched.dispatchers``."""

    def __call__(self, url: str, order: Order) -> Sequence[Receipt]:
        """Send an order once; DispatchFailed names the nodes that may have been accepted."""


class UrlReference(Noun, frozen=True, kw_only=True):
    """The source of a URL with a password: exactly one of a variable and a file."""

    env: Annotated[str, Meta(pattern=VARIABLE)] | None = None
    file: Name | None = None


class MessagingSettings(Noun, frozen=True, kw_only=True):
    """The message broker of a site, ``rabbit://user:password@host:5672/vhost``.

    With ``tls``, the broker's certificate is verified with ``cacert``, by default with the system's
    authorities. With ``reports``, a service stores reports of pod managers from every sender.
    """

    url: UrlReference
    exchange: Word = "valence-sched"
    topic: Word = "valence-sched-hints"
    tls: bool = False
    cacert: Name | None = None
    reports: bool = False


def check_messaging(settings: MessagingSettings, file: str) -> None:
    """Raise InputError unless the URL has exactly one source."""
    url = settings.url
    if (url.env is None) == (url.file is None):
        found = "no source of the URL" if url.env is None else "two sources of the URL"
        raise InputError(file, "$.url", found, "url: {env: VARIABLE} or url: {file: PATH}")
