# SPDX-License-Identifier: Apache-2.0
"""The page that ``--html`` names: opened before an effect, written after it or not at all."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from valence_sched.errors import UsageError

if TYPE_CHECKING:
    from valence_sched.app import App, Site
    from valence_sched.model.decision import Report, Reports
    from valence_sched.model.hardware import PodmOverview
    from valence_sched.model.page import Page
    from valence_sched.model.relocation import Relocation, Survival
    from valence_sched.model.replay import Replay, SweepRun
    from valence_sched.model.scheduler import Scheduler


class PageFile:
    """A page in the making: the hardware is read first, since an effect changes it.

    ``write`` writes any page; it raises InputError if the file cannot be written.
    """

    def __init__(self, app: App, write: Callable[[Page], None]) -> None:
        self._app, self.write = app, write

    def read_hardware(
        self, scheduler: Scheduler, podms: Sequence[PodmOverview] | None = None
    ) -> None:
        """Read what the page is about: all that a scheduler decides on, or some pod managers."""
        from valence_sched.pages.hardware import read_hardware  # the libraries of pages

        self._hardware = read_hardware(scheduler, podms)

    def write_inventory(self) -> None:
        """Write the page of the inventory; InputError if it cannot be written."""
        from valence_sched.pages.inventory import inventory_page

        self.write(inventory_page(self._hardware))

    def write_decision(self, document: Report | Reports, facts: Sequence[tuple[str, str]]) -> None:
        """Write the page of a decision; InputError if it cannot be written."""
        from valence_sched.pages.decision import decision_page

        self.write(decision_page(document, self._hardware, tuple(facts)))

    def write_replay(
        self, replay: Replay, sites: Sequence[Site], facts: Sequence[tuple[str, str]]
    ) -> None:
        """Write the page of a replay on these sites; InputError if it cannot be written."""
        from valence_sched.pages.replay import replay_page

        effects = {site.name: site.effects for site in sites}
        self.write(replay_page(replay, effects, tuple(facts)))

    def write_sweep(
        self, runs: Sequence[SweepRun], sites: Sequence[Site], facts: Sequence[tuple[str, str]]
    ) -> None:
        """Write the page of a sweep over these sites; InputError if it cannot be written."""
        from valence_sched.pages.sweep import sweep_page

        self.write(sweep_page(runs, {site.name: site.effects for site in sites}, tuple(facts)))

    def write_relocation(self, result: Relocation | Survival, site: Site) -> None:
        """Write the page of a failure or a drain on a site; InputError if it cannot be written."""
        self.write(self._app.relocation_page(result, site))


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
        yield PageFile(app, write)
