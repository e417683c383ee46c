# SPDX-License-Identifier: Apache-2.0
"""How Sphinx builds the documentation; nothing is fetched."""

import sys
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "valence-sched"
author = "The valence-sched authors"
copyright = author
release = metadata.version("valence-sched")
version = ".".join(release.split(".")[:2])

extensions = ["cliff.sphinxext", "dialect_fields", "plugins", "source"]
exclude_patterns = ["_ext"]
highlight_language = "console"
smartquotes = False

autoprogram_cliff_application = "valence-sched"
# What cliff gives every command is told once, on the operator's page.
autoprogram_cliff_ignored = [
    "--help",
    "--format",
    "--column",
    "--max-width",
    "--fit-width",
    "--print-empty",
    "--prefix",
    "--noindent",
    "--quote",
    "--sort-column",
    "--sort-ascending",
    "--sort-descending",
]

html_theme = "alabaster"
html_theme_options = {
    "description": "Which pod manager, which pool, which blocks",
    "fixed_sidebar": True,
}
html_show_sourcelink = False
