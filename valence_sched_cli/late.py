# SPDX-License-Identifier: Apache-2.0
"""Packages whose modules are imported when ``take_action`` of a command first uses them."""

import importlib
from typing import TYPE_CHECKING, Any


class Package:
    """A package whose modules are imported one by one, each at its first use."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        package, module = importlib.import_module(self._name), f"{self._name}.{name}"
        if not hasattr(package, name):
            try:
                importlib.import_module(module)
            except ModuleNotFoundError as error:
                if error.name != module:  # the module exists, but a library is missing
                    raise
                raise AttributeError(str(error)) from None
        found = self.__dict__[name] = getattr(package, name)
        return found


if TYPE_CHECKING:
    import argcomplete as argcomplete
    import argcomplete.completers
    import argcomplete.finders
    import argcomplete.lexers
    import argcomplete.shell_integration
    import msgspec as msgspec
    import rich as rich
    import rich.color
    import rich.console
    import rich.live
    import rich.spinner
    import rich.style
    import rich.text
    import tabulate as tabulate

    import valence_sched.app
    import valence_sched.pages.decision
    import valence_sched.pages.hardware
    import valence_sched.pages.replay

    app, model, pages = valence_sched.app, valence_sched.model, valence_sched.pages
    words = valence_sched.words
else:
    argcomplete, msgspec = Package("argcomplete"), Package("msgspec")
    rich, tabulate = Package("rich"), Package("tabulate")
    app, model = Package("valence_sched.app"), Package("valence_sched.model")
    pages, words = Package("valence_sched.pages"), Package("valence_sched.words")
