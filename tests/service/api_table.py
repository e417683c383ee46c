# SPDX-License-Identifier: Apache-2.0
"""The table of routes for the reference of the API: ``python -m tests.service.api_table``."""

import inspect

from valence_sched.service.routes import ROUTES, Route


def rows() -> list[tuple[str, str, str]]:
    """Return method and path, the least role, and what it does, of each route."""
    return [(f"{one.method} {one.path}", _role(one), _summary(one)) for one in ROUTES]


def _role(route: Route) -> str:
    if route.takes_token:
        return "pod manager"
    return route.role if route.rule else "anybody"


def _summary(route: Route) -> str:
    return (inspect.getdoc(route.handler) or "").partition("\n")[0]


def table() -> str:
    """Return the rows as those of a list-table."""
    cells = (f"   * - ``{what}``\n     - {role}\n     - {text}\n" for what, role, text in rows())
    return "".join(cells)


if __name__ == "__main__":
    print(table(), end="")
