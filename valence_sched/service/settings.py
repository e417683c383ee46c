# SPDX-License-Identifier: Apache-2.0
"""Settings of the service, as an operator writes them in a file."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from msgspec import Meta

from valence_sched import files
from valence_sched.errors import UsageError, one_line
from valence_sched.model.base import Noun
from valence_sched.model.codec import convert, load_yaml

Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0)]


class Limits(Noun, frozen=True, kw_only=True):
    """The bounds of one request: what it may send, ask for, and wait for.

    ``queue_s`` is how long a request waits for others to be decided before it is refused.
    """

    body_bytes: Positive = 4 << 20
    nodes: Positive = 1000
    alternates: Annotated[int, Meta(ge=0)] = 100
    requests: Positive = 100
    queue_s: Seconds = 10.0
    operations: Positive = 32


class ServiceSettings(Noun, frozen=True, kw_only=True):
    """The settings of the service.

    ``auth`` says who may use it: users of a password file (``basic``), or anybody (``none``), which
    is allowed on loopback only. ``inventories`` are decided on in place of the registered pod
    managers. Live pod managers are read again after ``refresh_s``. ``workers`` are processes,
    each with so many ``threads``.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8790
    workers: Positive = 1
    threads: Positive = 8
    auth: Literal["none", "basic"] = "none"
    users_file: str | None = None
    certificate: str | None = None
    private_key: str | None = None
    state: str | None = None
    inventories: tuple[str, ...] = ()
    podm_files: tuple[str, ...] = ()
    flavor_files: tuple[str, ...] = ()
    policy_files: tuple[str, ...] = ()
    resource_files: tuple[str, ...] = ()
    near_maps: tuple[str, ...] = ()
    refresh_s: Seconds = 60.0
    limits: Limits = Limits()


DEFAULT_SETTINGS = ServiceSettings()


def read_settings(path: str, *, check: bool = True) -> ServiceSettings:
    """Return the settings of a YAML file; without ``check`` a caller checks them later.

    Raises:
        InputError: it cannot be read, or breaks its format.
        UsageError: as of :func:`check_settings`.
    """
    data = files.read(path)
    settings = convert(load_yaml(data, path) or {}, ServiceSettings, path)
    if check:
        check_settings(settings, path)
    return settings


def check_settings(settings: ServiceSettings, path: str) -> None:
    """Raise UsageError for settings that contradict each other, or would let anybody in."""
    if settings.auth == "basic" and settings.users_file is None:
        raise UsageError(f"{path}: auth is basic without a users_file: name the file of users")
    if settings.auth == "none" and not is_loopback(settings.host):
        raise UsageError(one_line(
            f"{path}: host {settings.host!r} is beyond loopback without authentication: set auth "
            "to basic, with a users_file, or listen on 127.0.0.1"
        ))  # fmt: skip
    if (settings.certificate is None) != (settings.private_key is None):
        raise UsageError(f"{path}: a certificate and its private_key are set together or not at "
                         "all")  # fmt: skip


def is_loopback(host: str) -> bool:
    """Return whether an address is reached from this machine only; other names never are."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
