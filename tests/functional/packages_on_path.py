# SPDX-License-Identifier: Apache-2.0
"""A third-party package with one entry point, found through its folder in PYTHONPATH."""

from pathlib import Path


def written(folder: Path, name: str, text: str, group: str, function: str) -> str:
    """Write a module and the metadata of its entry point to a folder; return the folder."""
    folder.mkdir()
    (folder / f"{name}.py").write_text(text)
    told = folder / f"{name}-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text(f"[{group}]\n{function} = {name}:{function}\n")
    return str(folder)
