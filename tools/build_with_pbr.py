# SPDX-License-Identifier: Apache-2.0
"""The build backend: that of pbr, which also builds if git has no version.

pbr takes the version from git tags or from an sdist. A plain copy, a shallow clone, a repository of
another owner and a repository without tags or commits have neither. There the version is the
development version of the next release in ``setup.cfg``.
"""

import configparser
import os

from pbr import packaging
from pbr.build import *  # noqa: F403


def _version_from_git(name: str, next_release: str) -> str | None:
    try:
        return str(packaging.get_version(name, next_release))
    except Exception:
        # pbr raises a bare Exception if it finds no version.
        return None


_config = configparser.ConfigParser()
_config.read("setup.cfg", encoding="utf-8")
_metadata = _config["metadata"]
# pbr returns 0.0.0 for a shallow history without a tag.
if _version_from_git(_metadata["name"], _metadata["version"]) in (None, "0.0.0"):
    os.environ["PBR_VERSION"] = _metadata["version"] + ".dev0"
