# SPDX-License-Identifier: Apache-2.0
"""Profiles: named defaults of options in the user's ``config.yaml``."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from valence_sched.errors import InputError

PROFILE = "VALENCE_SCHED_PROFILE"
_PASSWORDS = re.compile(r"(://[^/@:]*)(:)(?:(?!://)[^@])*(@)|([?&]\w*passw(?:or)?d)(=)[^&]*")
CONFIG_FILE = "config.yaml"
VARIABLES = {
    "inventory": "VALENCE_SCHED_INVENTORY",
    "service": "VALENCE_SCHED_URL",
    "state": "VALENCE_SCHED_STATE",
}


def hide_passwords(url: str, shown: str = "") -> str:
    """Return a URL without the passwords of its user and of its options."""

    def hide(found: re.Match[str]) -> str:
        before, mark, after = found[1] or found[4], found[2] or found[5], found[3] or ""
        return f"{before}{mark + shown if shown else ''}{after}"

    return _PASSWORDS.sub(hide, url)


class Profile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The defaults of one profile; None: no default.

    ``inventory`` and ``state`` are paths relative to the folder of the file; ``state`` may be the
    URL of a database. ``output`` is an output format, such as ``json``.
    """

    inventory: str | tuple[str, ...] | None = None
    service: str | None = None
    state: str | None = None
    policy: str | None = None
    zone: str | None = None
    owner: str | None = None
    output: str | None = None

    def variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that the profile sets, none if ``environ`` sets one of them."""
        if any(environ.get(name) for name in VARIABLES.values()):
            return {}
        inventories = self.inventory or ()
        inventories = (inventories,) if isinstance(inventories, str) else inventories
        values = {"inventory": ":".join(inventories), "service": self.service, "state": self.state}
        return {VARIABLES[name]: text for name, text in values.items() if text}


class ProfileFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file of profiles; ``profile`` names the default profile."""

    profile: str | None = None
    profiles: dict[str, Profile] = {}


def check_profiles(file: ProfileFile, path: str) -> None:
    """Raise InputError for a profile that contradicts itself, has an empty value or a password."""
    for name, profile in file.profiles.items():
        for field in profile.__struct_fields__:
            value = getattr(profile, field)
            if "" in (value if isinstance(value, tuple) else (value,)):
                place = f"$.profiles.{name}.{field}"
                raise InputError(path, place, "an empty text", "a value, or null for no default")
        if profile.service and (profile.inventory or profile.state):
            found = "a service together with an inventory or a state"
            hint = "a service has its own inventory and state: remove one of them"
            raise InputError(path, f"$.profiles.{name}", found, "one of them", hint)
        hints = {
            "state": f"put the URL into {VARIABLES['state']}",
            "service": "use VALENCE_SCHED_USER and VALENCE_SCHED_PASSWORD",
        }
        for field, hint in hints.items():
            if (url := getattr(profile, field) or "") != hide_passwords(url):
                place = f"$.profiles.{name}.{field}"
                raise InputError(path, place, "a password", "a URL without a password", hint)


def located_profile(profile: Profile, folder: str) -> Profile:
    """Return a profile with absolute paths."""

    def located(path: str) -> str:
        return path if "://" in path else os.path.join(folder, os.path.expanduser(path))

    paths = profile.inventory or ()
    paths = (paths,) if isinstance(paths, str) else paths
    state = located(profile.state) if profile.state else None
    return replace(profile, inventory=tuple(map(located, paths)) or None, state=state)


def settings_in_effect(
    profile: tuple[str, Profile],
    environ: Mapping[str, str],
    *,
    named: bool,
    file: str,
    service: str | None,
    catalogue: Callable[[], str | None],
) -> Iterator[tuple[str, Any, str]]:
    """Yield each setting, its value (None: no default), and the source of the value.

    The profile is set by an option if it is ``named``, else by the environment or the ``file``. An
    option or the cloud's ``catalogue`` may set the URL of the ``service``.
    """
    name, own = profile
    source = file if name else "default"
    if named:
        source = "option --profile"
    elif environ.get(PROFILE):
        source = f"environment {PROFILE}"
    yield "profile", name or None, source
    set_here = own.variables(environ)
    for setting, variable in VARIABLES.items():
        value, source = environ.get(variable), f"environment {variable}"
        if setting == "service" and service:
            value, source = service, "option --os-scheduler-endpoint"
        elif setting == "service" and not value and (found := catalogue()):
            value, source = found, "service catalogue"
        if not value:
            value, source = set_here.get(variable), f"profile {name}"
        yield setting, value or None, source if value else "default"
    for setting in ("policy", "zone", "owner", "output"):
        default = getattr(own, setting)
        yield setting, default, f"profile {name}" if default else "default"
