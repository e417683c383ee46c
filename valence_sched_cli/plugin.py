# SPDX-License-Identifier: Apache-2.0
"""The plug-in of OpenStackClient: ``openstack podm …`` and ``openstack scheduler …``."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from valence_sched.app import App

API_NAME = "podm"
API_VERSION_OPTION = "os_podm_api_version"
DEFAULT_API_VERSION = "1"
API_VERSIONS = ("1",)


def make_client(instance: Any) -> App:
    """Return the scheduler's application for one run of the program; no cloud is needed.

    One is logged in to only when it must be asked where a thing is.
    """
    from valence_sched_cli.cloud import sdk_connector
    from valence_sched_cli.output.progress import progress

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one small machine, one short run
    from valence_sched.app import App

    return App(progress=progress(), cloud=sdk_connector(instance))


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the global option that OpenStackClient expects of every plug-in."""
    from osc_lib import utils  # at hand inside openstack, and too heavy for our own program

    parser.add_argument(
        "--os-podm-api-version",
        metavar="<podm-api-version>",
        default=utils.env("OS_PODM_API_VERSION", default=DEFAULT_API_VERSION),
        choices=API_VERSIONS,
        help=f"pod manager scheduling API version, default={DEFAULT_API_VERSION} "
        "(Env: OS_PODM_API_VERSION)",
    )
    return parser
