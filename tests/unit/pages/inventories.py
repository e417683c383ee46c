# SPDX-License-Identifier: Apache-2.0
"""Sites and decisions for pages, over inventories in their JSON form."""

import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from valence_sched.app import App
from valence_sched.engine import Engine
from valence_sched.model.decision import Report
from valence_sched.model.page import Page, PageTable, TableCell
from valence_sched.model.reading import Selection
from valence_sched.pages.hardware import HardwareListing, read_hardware
from valence_sched.planning.site import Site
from valence_sched.testing import request

CORES = {"processor": {"total_cores": 16}}


def block(uri: str, pools: tuple[str, ...] = (), cores: int = 16, **status: Any) -> dict[str, Any]:
    devices = {"processors": [{"cores": cores, "model": "EPYC"}]}
    return {"uri": uri, "type": ["Compute"], "pools": list(pools), "devices": devices,
            "status": status}  # fmt: skip


USED = {"state": "Composed", "compositions": 1}
SHARED = {"state": "ComposedAndAvailable", "shareable": True, "max_compositions": 4,
          "compositions": 1}  # fmt: skip

#: One with two pools and every use of a block, one offline, one too small.
PODMS = (
    {"id": "east", "name": "East hall", "zone": "az1", "pools": [{"id": "a"}, {"id": "b"}],
     "blocks": [block("/b/c1", ("a",)), block("/b/c2", ("a", "b")), block("/b/c3", ("a",), **USED),
                block("/b/c4", ("b",), enabled=False), block("/b/c5", ("b",), **SHARED)],
     "nodes": [{"uri": "/n/1", "name": "web", "blocks": ["/b/c3", "/b/c5"]}]},
    {"id": "dark", "status": "Offline", "blocks": [block("/b/c1")]},
    {"id": "small", "blocks": [block("/b/c1", cores=4)]},
    {"id": "west", "blocks": [block("/b/c1"), block("/b/c2", **USED)]},
)  # fmt: skip


def engine(*podms: dict[str, Any]) -> Engine:
    """Return a scheduler that has read an inventory of these pod managers."""
    with written(*podms) as selection:
        scheduler = App({}).engine(selection)
        scheduler.view()
        return scheduler


def app_and_site(*podms: dict[str, Any]) -> tuple[App, Site]:
    """Return the application that read these pod managers, and their site."""
    app = App({})
    with written(*podms) as selection:
        return app, app.site(selection)


@contextlib.contextmanager
def written(*podms: dict[str, Any]) -> Iterator[Selection]:
    """Yield the selection of an inventory of these pod managers."""
    with tempfile.TemporaryDirectory(prefix="pages-") as folder:
        file = Path(folder, "site.json")
        file.write_text(json.dumps({"schema": "valence-sched/inventory", "podms": podms}))
        yield Selection(sources=(str(file),))


def decided(
    *podms: dict[str, Any], properties: dict[str, Any] | None = None, **fields: Any
) -> tuple[Report, HardwareListing]:
    """Return a decision on these pod managers, and its inventory."""
    scheduler = engine(*podms)
    wanted = request(properties or CORES, **fields)
    return scheduler.select_destinations(wanted, detail="report").report, read_hardware(scheduler)


def titles(page: Page) -> list[str]:
    return [one.title for one in page.sections]


def section(page: Page, title: str) -> Any:
    (found,) = [one for one in page.sections if one.title == title]
    return found


def table(page: Page, title: str) -> list[tuple[str, ...]]:
    found = section(page, title)
    assert isinstance(found, PageTable)
    return [tuple(cell.text if isinstance(cell, TableCell) else cell for cell in row)
            for row in found.rows]  # fmt: skip
