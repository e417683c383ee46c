# SPDX-License-Identifier: Apache-2.0
"""The build backend: that of pbr, which also builds if git has no version.

pbr takes the version from git tags or from an sdist. A plain copy, a shallow clone, a repository of
another owner and a repository without tags or commits have neither. There the version is the
development version of the next release in ``setup.cfg``. ``git archive`` writes the tag of its
commit into this file.

Two builds of the same files with the same ``SOURCE_DATE_EPOCH`` are equal.
"""

import configparser
import gzip
import os
import re
import stat
import tarfile
import zipfile
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


def _mode(mode: int) -> int:
    return 0o755 if mode & 0o100 else 0o644


def build_sdist(sdist_directory: str, config_settings: dict[str, str] | None = None) -> str:
    """Build a source archive with files of one time, in order and without owners."""
    name = str(build.build_sdist(sdist_directory, config_settings))
    path, time = Path(sdist_directory, name), int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    with (
        tarfile.open(path) as old,
        open(f"{path}.new", "wb") as stream,
        gzip.GzipFile("", "wb", mtime=time, fileobj=stream) as packed,
        tarfile.open(mode="w", fileobj=packed) as new,
    ):
        for member in sorted(old, key=lambda member: member.name):
            content = old.extractfile(member)
            member.mode, member.mtime = _mode(member.mode), time or member.mtime
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.pax_headers = {}
            new.addfile(member, content)
    os.replace(f"{path}.new", path)
    return name


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, str] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build a wheel whose files have the same permissions with each umask."""
    name = str(build.build_wheel(wheel_directory, config_settings, metadata_directory))
    path = Path(wheel_directory, name)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(f"{path}.new", "w") as new:
        for info in old.infolist():
            content = old.read(info)
            info.external_attr = (stat.S_IFREG | _mode(info.external_attr >> 16)) << 16
            new.writestr(info, content)
    os.replace(f"{path}.new", path)
    return name


_config = configparser.ConfigParser()
_config.read("setup.cfg", encoding="utf-8")
_metadata = _config["metadata"]
# pbr returns 0.0.0 for a shallow history without a tag.
if re.fullmatch(r"\d+\.\d+\.\d+", ARCHIVED):
    os.environ["PBR_VERSION"] = ARCHIVED
elif _version_from_git(_metadata["name"], _metadata["version"]) in (None, "0.0.0"):
    os.environ["PBR_VERSION"] = _metadata["version"] + ".dev0"
