# SPDX-License-Identifier: Apache-2.0
"""Options that place nodes near external resources, such as volumes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

OPTION_DESTS = ("near", "prefer_near")


def add_proximity_options(parser: argparse.ArgumentParser) -> None:
    """Add the options about things outside."""
    for option, words in (
        ("--near", "only near this thing, such as volume=db-1"),
        ("--prefer-near", "rather near this thing"),
    ):
        parser.add_argument(
            option,
            metavar="<kind=name>",
            type=_external_resource,
            action="append",
            default=[],
            help=f"{words}: where a map says that it is, or, within openstack, the cloud "
            "(repeat for several)",
        )
    parser.add_argument(
        "--near-map",
        metavar="<file>",
        action="append",
        default=[],
        help="YAML map that says where things are, or RESOLVER:SOURCE (repeat for several)",
    )


def request_fields(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """Return the options about external resources as fields of a request."""
    return {"near": _by_kind(parsed_args.near), "prefer_near": _by_kind(parsed_args.prefer_near)}


def _by_kind(named: Sequence[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    names: dict[str, tuple[str, ...]] = {}
    for kind, name in dict.fromkeys(named):
        names[kind] = (*names.get(kind, ()), name)
    return names


def _external_resource(text: str) -> tuple[str, str]:
    """Parse ``KIND=NAME``."""
    kind, equals, name = (part.strip() for part in text.partition("="))
    if not equals or not kind or not name:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not KIND=NAME, as in volume=db-1")
    return kind, name
