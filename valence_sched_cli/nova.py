# SPDX-License-Identifier: Apache-2.0
"""Flavors of OpenStack Nova on the command line of ``openstack``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from valence_sched.errors import UnknownName, UsageError
from valence_sched_cli import cloud

if TYPE_CHECKING:
    from valence_sched.main import Main
    from valence_sched.model.flavor import Flavor

OPTION = "--nova-flavor"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a flavor of the cloud."""
    parser.add_argument(
        OPTION,
        metavar="<flavor>",
        help="flavor of Nova, by name or ID, in place of --flavor (only inside openstack)",
    )


def flavor(main: Main, client_manager: Any, name: str) -> Flavor:
    """Return a flavor of the cloud as one of ours; remarks go to ``main``.

    Raises:
        UsageError: the program is not ``openstack``.
        CloudError: the cloud does not answer.
        UnknownName: it has no such flavor.
        InputError: the flavor has an extra spec without a counterpart here.
    """
    from valence_sched.model.forms import nova
    from valence_sched.model.forms.form import Where

    connect = cloud.connection(client_manager)
    if connect is None:
        raise UsageError(f"{OPTION}: only inside openstack, which knows a cloud")
    compute = connect().compute
    found = cloud.told(lambda: compute.find_flavor(name, get_extra_specs=True))
    if found is None:
        known = cloud.told(lambda: [other.name for other in compute.flavors()])
        raise UnknownName("Nova flavor", name, known)
    form = nova.form(_document(found), Where(f"Nova flavor {name!r}"), dict)
    main.remarks += form.remarks
    return form.flavor


def _document(found: Any) -> dict[str, Any]:
    """Return a flavor of openstacksdk as Nova's API has it."""
    words = ("id", "name", "description", "vcpus", "ram", "disk", "ephemeral", "swap")
    document = {word: getattr(found, word) for word in words}
    return {**document, "swap": found.swap or 0, "extra_specs": dict(found.extra_specs or {})}
