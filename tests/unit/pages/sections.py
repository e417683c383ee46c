# SPDX-License-Identifier: Apache-2.0
"""Reads the sections of a page, before it is drawn."""

from typing import Any

from valence_sched.model.page import Page, PageTable, TableCell


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
