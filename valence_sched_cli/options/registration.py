# SPDX-License-Identifier: Apache-2.0
"""Options that register a pod manager, and the cells that show its connection."""

from __future__ import annotations

import argparse
import getpass
import itertools
import os
import warnings
from typing import Any

from valence_sched.errors import UsageError
from valence_sched_cli.late import model, msgspec
from valence_sched_cli.options import parser as parsing
from valence_sched_cli.output.cells import Pairs


class _RefusePassword(argparse.Action):
    """Refuses a password on the command line, which other users see; does not print it."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        hint = "use --password-env, --password-file or --password-prompt"
        parser.error(f"--password: other users of this machine can read a command line: {hint}")


#: The options for the connection to a service of a pod manager or of a zone.
LOGIN = """\
what | --password-env <variable>: environment variable with the password
what | --password-file <file>: file with the password, readable by its owner only"""
CERTIFICATE = """\
what --cert <file>: client certificate, in PEM
what --key <file>: key of the client certificate, in PEM (default: in the file of --cert)"""
_OPTIONS = f"""\
what --driver <driver>: driver (default: auto)
what --username <name>: user name
{LOGIN}
what | --password-prompt: ask for the password, and store it in a file next to the state, readable
    by you only
what --auth: how to log in (default: auto, a session if supported)
what | --cacert <file>: certificates to trust, in PEM
what | --insecure: do not verify the certificate of the pod manager
{CERTIFICATE}
where --zone <zone>: availability zone of the pod manager
where --aggregate <aggregate>...: aggregate of the pod manager
where --location <location>...: location, such as dc1/row-3/rack-7
decide --trait <trait>...: trait of all pools of the pod manager
decide --capability <key=value;value>...: capability, with its values
decide --fact <key=value>...: fact about the pod manager: a number, a text, or a ;-separated list
decide --max-blocks <n|type=n>...: maximum number of compute blocks in one node, or of blocks of a
    type; a stricter reported limit still applies
decide --parallel-composes <n>: maximum number of nodes of a request to compose at a time, 1 to 32
decide | --enable: place nodes on the pod manager
decide | --disable: place no nodes on the pod manager"""


def add_registration_options(parser: argparse.ArgumentParser) -> None:
    what = parsing.section(parser, "what")
    what.add_argument("--password", nargs="?", action=_RefusePassword, help=argparse.SUPPRESS)
    parsing.add_options(
        parser,
        _OPTIONS,
        auth={"choices": ("auto", "session", "basic")},
        max_blocks=parsing.parsed_by("registration:parse_max_blocks"),
        parallel_composes=lambda text: parsing.natural(
            text, 1, model.registration.MOST_PARALLEL_COMPOSES
        ),
        **dict.fromkeys(("username", "aggregate", "location"), parsing.nonempty_name),
        **dict.fromkeys(("capability", "fact"), parsing.key_and_value("KEY=VALUE")),
    )


def login_changes(args: argparse.Namespace, *, here: bool) -> dict[str, Any]:
    """Return the fields about TLS and the password that options name; UsageError if invalid.

    A certificate without a key file holds its key. File names are paths on the host of the
    service, unless the pod manager is registered ``here``.
    """

    def path(name: str) -> str:
        return os.path.abspath(os.path.expanduser(name)) if here else name

    named = {name: getattr(args, name) for name in ("cacert", "cert", "key")}
    changes: dict[str, Any] = {name: path(file) for name, file in named.items() if file}
    if "cert" in changes:
        changes.setdefault("key", None)
    reference = model.registration.PasswordReference
    if args.password_env is not None:
        if not model.registration.is_variable(args.password_env):
            raise UsageError("--password-env: expected the name of an environment variable")
        changes["password"] = reference(env=args.password_env)
    elif args.password_file is not None:
        changes["password"] = reference(file=path(args.password_file))
    elif getattr(args, "password_prompt", False):
        changes["password"] = reference(stored=True)
    return changes


def with_options(
    registration: model.registration.Registration, args: argparse.Namespace, *, here: bool = True
) -> model.registration.Registration:
    """Return a pod manager with the properties of the options; UsageError if they contradict."""
    nouns = model.registration
    max_blocks = parsing.by_name(
        "--max-blocks", itertools.chain(*(one.items() for one in args.max_blocks))
    )
    changes: dict[str, Any] = {
        "aggregates": (*dict.fromkeys((*registration.aggregates, *args.aggregate)),),
        "traits": (*dict.fromkeys((*registration.traits, *args.trait)),),
        "capabilities": registration.capabilities | nouns.merge_capabilities(args.capability),
        "facts": registration.facts | nouns.merge_facts(args.fact, args.location),
        "max_blocks": registration.max_blocks | max_blocks,
        **login_changes(args, here=here),
        **parsing.given(args, "driver", "username", "auth", "zone", "parallel_composes"),
    }
    if args.cacert is not None:
        changes["insecure"] = False
    if args.insecure:
        changes |= {"cacert": None, "insecure": True}
    if args.enable or args.disable:
        changes["enabled"] = args.enable
    return msgspec.structs.replace(registration, **changes)


def service_root(option: str, url: str) -> str:
    """Return the URL of a pod manager without the path of its service; UsageError if invalid."""
    if wrong := model.podm_address.url_problem(url):
        raise UsageError(f"{option}: found {wrong}")
    return model.podm_address.strip_service_root(url)


def prompt_password(args: argparse.Namespace, name: str, *, here: bool = True) -> str | None:
    """Return the typed password, None without ``--password-prompt``; UsageError."""
    if not args.password_prompt:
        return None
    if not here:
        hint = "use --password-env or --password-file, which the service reads"
        raise UsageError(f"--password-prompt: a typed password is not sent to a service: {hint}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)
            password = getpass.getpass(f"Password of {name}: ")
    except (EOFError, OSError, getpass.GetPassWarning):
        hint = "no terminal: use --password-file or --password-env"
        raise UsageError(f"--password-prompt: {hint}") from None
    if not password:
        raise UsageError("--password-prompt: the password is empty")
    return password


def connection_cells(registration: model.registration.Registration, file: str) -> dict[str, Any]:
    password = registration.password
    return {
        "Username": registration.username,
        "Password": password and password.text,
        "Auth": registration.auth,
        "CA Cert": registration.cacert,
        "Client Cert": registration.cert,
        "TLS Verified": not registration.insecure,
        "Max Blocks": Pairs(dict(registration.max_blocks.items())),
        "Parallel Composes": registration.parallel_composes,
        "Registered In": file,
    }
