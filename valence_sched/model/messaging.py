# SPDX-License-Identifier: Apache-2.0
"""Messaging: the message broker of a site, over which processes hint that the state changed."""

from typing import Annotated

from msgspec import Meta

from valence_sched.errors import InputError
from valence_sched.model.base import Noun
from valence_sched.model.inventory import Name
from valence_sched.model.registration import VARIABLE

Word = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,100}$")]


class UrlReference(Noun, frozen=True, kw_only=True):
    """The source of a URL with a password: exactly one of a variable and a file."""

    env: Annotated[str, Meta(pattern=VARIABLE)] | None = None
    file: Name | None = None


class MessagingSettings(Noun, frozen=True, kw_only=True):
    """The broker of a site, and where on it hints go.

    The URL is ``rabbit://user:password@host:5672/vhost``. With ``tls`` the broker is verified by
    the authorities of ``cacert``, or the usual ones of the system. With ``reports`` a service
    stores what is reported of pod managers over it: all that may send there may report.
    """

    url: UrlReference
    exchange: Word = "valence-sched"
    topic: Word = "valence-sched-hints"
    tls: bool = False
    cacert: Name | None = None
    reports: bool = False


def check_messaging(settings: MessagingSettings, file: str) -> None:
    """Raise InputError where the URL has no source, or two."""
    url = settings.url
    if (url.env is None) == (url.file is None):
        found = "no source of the URL" if url.env is None else "two sources of the URL"
        raise InputError(file, "$.url", found, "url: {env: VARIABLE} or url: {file: PATH}")
