# SPDX-License-Identifier: Apache-2.0
"""The command that takes back what is registered of a pod manager."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from valence_sched_cli import command, options

FLAGS = {
    "driver": "ask it again what it speaks",
    "username": "log in as nobody; the password goes, too",
    "password": "forget where its password is, and one that was typed in",
    "auth": "log in as it likes",
    "cacert": "trust the usual certificates",
    "insecure": "check its certificate again",
    "zone": "leave its availability zone",
    "location": "forget where it stands",
}
NAMES = {
    "aggregate": "aggregates",
    "capability": "capabilities",
    "trait": "traits",
    "fact": "facts",
}


class UnsetPodm(command.Command):
    """Take back what is registered of a pod manager."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("podm", metavar="<podm>", help="registered pod manager")
        for flag, words in FLAGS.items():
            parser.add_argument(f"--{flag}", action="store_true", help=words)
        for option in NAMES:
            parser.add_argument(
                f"--{option}",
                metavar=f"<{'key' if option in ('capability', 'fact') else option}>",
                action="append",
                default=[],
                help=f"{option} to take back (repeat for several)",
            )
        options.add_state_option(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        import msgspec

        from valence_sched.errors import UsageError
        from valence_sched.model.registered import Registered

        registry = self.main.registry(parsed_args.state)
        old = registry.get(parsed_args.podm)
        plain = Registered(name=old.name, url=old.url)
        flags = [flag for flag in FLAGS if getattr(parsed_args, flag)]
        if parsed_args.username:
            flags.append("password")
        changes = {flag: getattr(plain, flag) for flag in flags if flag != "location"}
        for option, field in NAMES.items():
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
