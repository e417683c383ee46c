# SPDX-License-Identifier: Apache-2.0
"""The plug-in of OpenStackClient: ``openstack podm …`` and ``openstack scheduler …``."""

from __future__ import annotations

import argparse
import os
from typing import Any

from valence_sched.errors import UsageError
from valence_sched_cli.cloud import sdk_connector
from valence_sched_cli.late import app
from valence_sched_cli.options.parser import NAMES, nonempty
from valence_sched_cli.output.progress import terminal_progress

API_NAME = "podm"
API_VERSION_OPTION = "os_podm_api_version"
DEFAULT_API_VERSION = "1"
API_VERSIONS = ("1",)
VERSION_NAMES = ("1", "1.0", "latest")  # as the user may write it
_KNOWN = ", ".join(VERSION_NAMES)
URL_VARIABLE = "VALENCE_SCHED_URL"
VERSION_VARIABLE = "OS_PODM_API_VERSION"


def make_client(instance: Any) -> app.App:
    """Return the application for one run; UsageError for an unknown version in the environment."""
    options = getattr(instance, "_cli_options", None)
    version = os.environ.get(VERSION_VARIABLE, "")
    implied = options and isinstance(options.config.get("podm_api_version"), Implied)
    if implied and version and version not in VERSION_NAMES:
        raise UsageError(f"{VERSION_VARIABLE}: no API version {version[:40]!r}: {_KNOWN}")
    # more threads take longer to start than they save
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    return app.App(progress=terminal_progress(), cloud=sdk_connector(instance))


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the global option that OpenStackClient expects of every plug-in."""
    parser.add_argument(
        "--os-podm-api-version",
        metavar="<podm-api-version>",
        default=Implied(DEFAULT_API_VERSION),  # the environment is checked later
        type=_version,
        help=f"pod manager scheduling API version: {_KNOWN}, "
        f"default={DEFAULT_API_VERSION} (Env: {VERSION_VARIABLE})",
    )
    return add_endpoint_option(parser)


def add_endpoint_option(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the global option that names the scheduler's service; both programs have it."""
    parser.add_argument(
        "--os-scheduler-endpoint",
        metavar="<url>",
        type=nonempty(NAMES["<url>"]),
        help="URL of a scheduler's service, which decides instead of a local scheduler "
        f"(Env: {URL_VARIABLE})",
    )
    return parser


class Implied(str):
    """The default value of an option; its type distinguishes it from a value that the user gave."""


def _version(text: str) -> str:
    """Return the API version that a text names; the command groups are named after its number."""
    if isinstance(text, Implied):
        return text
    if text not in VERSION_NAMES:
        raise argparse.ArgumentTypeError(f"no API version {text[:40]!r}: {_KNOWN}")
    return DEFAULT_API_VERSION
