# SPDX-License-Identifier: Apache-2.0
"""The commands ``podm create, set, unset, delete``, which edit the registry of pod managers."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterable, Sequence
from typing import Any

from valence_sched.errors import SchedulerError
from valence_sched_cli import base
from valence_sched_cli.options import inventory, registration
from valence_sched_cli.options.request import nonempty_name

UNSET_FLAGS = {
    "driver": "ask it again what it speaks",
    "username": "log in as nobody; the password goes, too",
    "password": "forget where its password is, and one that was typed in",
    "auth": "log in as it likes",
    "cacert": "trust the usual certificates",
    "insecure": "check its certificate again",
    "zone": "leave its availability zone",
    "location": "forget where it stands",
}
UNSET_NAMES = {
    "aggregate": "aggregates",
    "capability": "capabilities",
    "trait": "traits",
    "fact": "facts",
}


class UnsetPodm(base.Command):
    """Take back what is registered of a pod manager."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("podm", metavar="<podm>", help="registered pod manager")
        for flag, words in UNSET_FLAGS.items():
            parser.add_argument(f"--{flag}", action="store_true", help=words)
        for option in UNSET_NAMES:
            parser.add_argument(
                f"--{option}",
                metavar=f"<{'key' if option in ('capability', 'fact') else option}>",
                action="append",
                default=[],
                help=f"{option} to take back (repeat for several)",
            )
        inventory.add_state_option(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        import msgspec

        from valence_sched.errors import UsageError
        from valence_sched.model.registration import Registration

        registry = self.scheduler_app.registry(parsed_args.state)
        old = registry.get(parsed_args.podm)
        plain = Registration(name=old.name, url=old.url)
        flags = [flag for flag in UNSET_FLAGS if getattr(parsed_args, flag)]
        if parsed_args.username:
            flags.append("password")
        changes = {flag: getattr(plain, flag) for flag in flags if flag != "location"}
        for option, field in UNSET_NAMES.items():
            names = list(getattr(parsed_args, option))
            if option == "fact" and parsed_args.location:
                names.append("location")
            if names:
                changes[field] = _without(getattr(old, field), names, f"{old.name}: {option}")
        if not changes:
            raise UsageError("nothing to unset: say what")
        registry.change(msgspec.structs.replace(old, **changes))


def _without(known: Any, names: Iterable[str], kind: str) -> Any:
    """Return a list or map without these.

    Raises:
        UnknownName: one of them is not there.
    """
    from valence_sched.errors import UnknownName

    gone = dict.fromkeys(names)
    for name in gone:
        if name not in known:
            where, _, noun = kind.rpartition(": ")
            raise UnknownName(noun, name, known, where)
    if isinstance(known, dict):
        return {key: value for key, value in known.items() if key not in gone}
    return tuple(item for item in known if item not in gone)


class CreatePodm(base.ShowOne):
    """Register a pod manager: where it is, how to log in, and what it counts as.

    It is not asked anything yet. Its password is never kept beside it, only where it is.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="<name>", help="name, its ID in every inventory")
        parser.add_argument("url", metavar="<url>", help="where it is: https://HOST[:PORT]")
        registration.add_registration_options(parser)
        inventory.add_state_option(parser)
        return parser

    def column_names(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        return registration.COLUMNS

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        from valence_sched.errors import UsageError
        from valence_sched.model.podm_url import strip_service_root, url_problem
        from valence_sched.model.registration import Registration

        name = parsed_args.name
        if not name:
            raise UsageError("an empty name")
        if wrong := url_problem(parsed_args.url):
            raise UsageError(f"url: found {wrong}")
        registry = self.scheduler_app.registry(parsed_args.state)
        registered = registration.with_options(
            Registration(name=name, url=strip_service_root(parsed_args.url)), parsed_args
        )
        registry.check_new(registered)
        registry.create(registered, registration.prompt_password(parsed_args, name))
        self.closing += registration.warnings_on(registered, registry.registrations())
        return registration.COLUMNS, registration.registration_cells(registered, registry.where)


class SetPodm(base.Command):
    """Change what is registered of a pod manager; aggregates and the like are added."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("podm", metavar="<podm>", help="registered pod manager")
        parser.add_argument("--url", metavar="<url>", type=nonempty_name, help="where it is now")
        registration.add_registration_options(parser)
        inventory.add_state_option(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        import msgspec

        from valence_sched.errors import UsageError
        from valence_sched.model.podm_url import strip_service_root, url_problem

        url = parsed_args.url
        if url is not None and (wrong := url_problem(url)):
            raise UsageError(f"--url: found {wrong}")
        registry = self.scheduler_app.registry(parsed_args.state)
        old = registry.get(parsed_args.podm)
        new = registration.with_options(old, parsed_args)
        if url is not None:
            new = msgspec.structs.replace(new, url=strip_service_root(url))
        if new == old and not parsed_args.password_prompt:
            raise UsageError("nothing to set: say what is different from now")
        registry.change(new, registration.prompt_password(parsed_args, old.name))
        self.closing += registration.warnings_on(new, registry.registrations())


class DeletePodm(base.Command):
    """Take pod managers out of the registry; refused while claims or nodes of one exist."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "podm", metavar="<podm>", nargs="+", help="registered pod manager (repeat for several)"
        )
        inventory.add_state_option(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        registry = self.scheduler_app.registry(parsed_args.state)
        for name in dict.fromkeys(parsed_args.podm):
            try:
                registry.delete(name)
            except SchedulerError as error:  # the others can go all the same
                self.tell(str(error), logging.ERROR)
                self.exit_code = error.exit_code
