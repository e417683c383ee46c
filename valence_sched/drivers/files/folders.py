# SPDX-License-Identifier: Apache-2.0
"""Reads folders of recorded documents without following links out of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from valence_sched.drivers.bounds import MAX_DOCUMENTS, MAX_MEMBERS, MAX_TREE_BYTES, error_text
from valence_sched.errors import InputError
from valence_sched.model.diagnostic import Diagnostics


def children(folder: Path, file: str, diagnostics: Diagnostics) -> list[Path]:
    """Return the files and folders in a folder, by name; what leads out of it is noted."""
    root = folder.resolve()
    found = []
    for path in _entries(folder, file, diagnostics):
        if not _is_inside(path, root, file, diagnostics):
            continue
        if path.is_dir() or path.is_file():
            found.append(path)
        else:
            fault = InputError(file, path.name, "no regular file", "a file or folder", "left out")
            diagnostics.skip(fault)
    return found


def files_below(root: Path, file: str, diagnostics: Diagnostics) -> dict[str, Path]:
    """Return every ``index.json`` below ``root`` by its place; ``root`` must be resolved."""
    found: dict[str, Path] = {}
    seen = size = 0
    for path in _walk(root, file, diagnostics):
        seen += 1
        if seen > MAX_MEMBERS:
            raise InputError(file, "", "more files and folders", f"at most {MAX_MEMBERS}")
        if path.name != "index.json" or path.is_dir():
            continue
        if not path.is_file():
            fault = InputError(file, _relative_path(path, root), "no regular file", "a document")
            diagnostics.skip(fault)
            continue
        size += path.stat().st_size
        found[_relative_path(path, root)] = path
        if size > MAX_TREE_BYTES:
            raise InputError(file, "", "more bytes of documents", f"at most {MAX_TREE_BYTES}")
        if len(found) > MAX_DOCUMENTS:
            raise InputError(file, "", "more documents", f"at most {MAX_DOCUMENTS}")
    return found


def _walk(root: Path, file: str, diagnostics: Diagnostics) -> Iterator[Path]:
    """Yield all below ``root``, parents first; a link to a folder around itself is noted."""
    waiting: list[tuple[Path, tuple[Path, ...]]] = [(root, (root,))]
    while waiting:
        here, around = waiting.pop()
        for path in _entries(here, file, diagnostics):
            if not _is_inside(path, root, file, diagnostics):
                continue
            yield path
            if not path.is_dir():
                continue
            real = path.resolve() if path.is_symlink() else around[-1] / path.name
            if real in around:
                found = "a link to a folder that it stands in"
                fault = InputError(
                    file, _relative_path(path, root), found, "a tree", "not followed"
                )
                diagnostics.skip(fault)
            else:
                waiting.append((path, (*around, real)))


def _entries(folder: Path, file: str, diagnostics: Diagnostics) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        fault = InputError(file, folder.name, error_text(error), "a folder that can be read")
        diagnostics.skip(fault)
        return []


def _is_inside(path: Path, root: Path, file: str, diagnostics: Diagnostics) -> bool:
    """Return whether a path is inside ``root``, following links; if not, note it."""
    if not path.is_symlink():
        return True
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        what = f"a link that leads nowhere ({error_text(error)})"
    else:
        if target.is_relative_to(root):
            return True
        what = f"a link out of the tree, to {target}"
    fault = InputError(file, _relative_path(path, root), what, "links within it", "not followed")
    diagnostics.skip(fault)
    return False


def _relative_path(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
