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

extensions = [
    "cliff.sphinxext",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "dialect_fields",
    "plugins",
    "reno.sphinxext",  # reads the notes from git
    "source",
]
exclude_patterns = ["_ext"]
highlight_language = "console"
smartquotes = False

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
# Types of annotations are those of other projects, or ours that are not public: no page has them.
nitpick_ignore_regex = [("py:.*", ".*")]

autoprogram_cliff_application = "valence-sched"
# What cliff gives every command is told once, on the page about output.
autoprogram_cliff_ignored = [
    "--help",
    "--help-all",
    "--format",
    "--column",
    "--max-width",
    "--fit-width",
    "--print-empty",
    "--prefix",
    "--noindent",
    "--quote",
    "--escape-formulas",
    "--sort-column",
    "--sort-ascending",
    "--sort-descending",
]

_PROGRAM = "choose the pod manager, pool and blocks that make a node"
_SERVICE = "settings of the scheduler's service"
man_pages = [
    ("reference/commands", "valence-sched", _PROGRAM, [], 1),
    ("reference/environment", "valence-sched-environment", "environment and profiles", [], 7),
    ("reference/exit-codes", "valence-sched-exit-codes", "exit codes of all commands", [], 7),
    ("reference/service-settings", "valence-scheduler", _SERVICE, [], 5),
]

html_theme = "furo"
html_title = "valence-sched"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_show_sourcelink = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5d8c", "color-brand-content": "#1f5d8c"},
    "dark_css_variables": {"color-brand-primary": "#7fb2e5", "color-brand-content": "#7fb2e5"},
}
pygments_style = "friendly"
pygments_dark_style = "monokai"
