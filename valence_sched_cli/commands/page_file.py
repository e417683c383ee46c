# SPDX-License-Identifier: Apache-2.0
"""The page that ``--html`` names: opened before an effect, written after it or not at all."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from valence_sched.errors import UsageError

if TYPE_CHECKING:
    from valence_sched.app import App
    from valence_sched.model.hardware import PodmOverview
    from valence_sched.model.page import Page
    from valence_sched.model.scheduler import Scheduler
    from valence_sched.pages.hardware import HardwareListing


class PageFile:
    """A page in the making: the hardware is read first, since an effect changes it.

    ``write`` writes any page; it raises InputError if the file cannot be written.
    """

    hardware: HardwareListing

    def __init__(self, write: Callable[[Page], None]) -> None:
        self.write = write

    def read_hardware(
        self, scheduler: Scheduler, podms: Sequence[PodmOverview] | None = None
    ) -> None:
        """Read what the page is about: all that a scheduler decides on, or some pod managers."""
        from valence_sched.pages.hardware import read_hardware  # the libraries of pages

        self.hardware = read_hardware(scheduler, podms)


def html_option(what: str) -> str:
    """Return the usage of the option for the file of the page; ``what`` says what it is about."""
    return f"output --html <file>: write {what} as one self-contained page for a browser"


@contextlib.contextmanager
def page_file(app: App, args: argparse.Namespace) -> Iterator[PageFile | None]:
    """Yield the page that the options ask for, None where they ask for none.

    Raises:
        UsageError: the file has no name.
        SchedulerError: the libraries for pages are missing.
        InputError: the file cannot be written.
    """
    if args.html is None:
        yield None
        return
    if args.html == "-":
        raise UsageError("--html: standard output is for the rows: name a file")
    with app.page_writer(args.html) as write:
        yield PageFile(write)
