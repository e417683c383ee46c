# SPDX-License-Identifier: Apache-2.0
"""The build backend: that of pbr, which also builds if git has no version.

pbr takes the version from git tags or from an sdist. A plain copy, a shallow clone, a repository of
another owner and a repository without tags or commits have neither. There the version is the
development version of the next release in ``setup.cfg``. ``git archive`` writes the tag of its
commit into this file.

An sdist has the times of ``SOURCE_DATE_EPOCH`` and no owners, so that two builds are equal.
"""

import configparser
import gzip
import os
import re
import tarfile
from pathlib import Path

from pbr import build, packaging
from pbr.build import *  # noqa: F403

#: The tag of an archived commit, or a text that is no version.
ARCHIVED = "$Format:%(describe:tags=true)$"


def _version_from_git(name: str, next_release: str) -> str | None:
    try:
        return str(packaging.get_version(name, next_release))
    except Exception:
        # pbr raises a bare Exception if it finds no version.
        return None


def _normalise(archive: Path, time: int) -> None:
    """Write an sdist again, with its files in order, of one time and without owners."""
    with (
        tarfile.open(archive) as old,
        open(f"{archive}.new", "wb") as stream,
        gzip.GzipFile("", "wb", mtime=time, fileobj=stream) as packed,
        tarfile.open(mode="w", fileobj=packed) as new,
    ):
        for member in sorted(old, key=lambda member: member.name):
            mode = 0o755 if member.mode & 0o100 else 0o644
            plain = member.replace(
                mtime=time, mode=mode, uid=0, gid=0, uname="", gname="", deep=False
            )
            plain.pax_headers = {}
            new.addfile(plain, old.extractfile(member))
    os.replace(f"{archive}.new", archive)


def build_sdist(sdist_directory: str, config_settings: dict[str, str] | None = None) -> str:
    name = str(build.build_sdist(sdist_directory, config_settings))
    if time := os.environ.get("SOURCE_DATE_EPOCH"):
        _normalise(Path(sdist_directory, name), int(time))
    return name


_config = configparser.ConfigParser()
_config.read("setup.cfg", encoding="utf-8")
_metadata = _config["metadata"]
# pbr returns 0.0.0 for a shallow history without a tag.
if re.fullmatch(r"\d+\.\d+\.\d+", ARCHIVED):
    os.environ["PBR_VERSION"] = ARCHIVED
elif _version_from_git(_metadata["name"], _metadata["version"]) in (None, "0.0.0"):
    os.environ["PBR_VERSION"] = _metadata["version"] + ".dev0"
