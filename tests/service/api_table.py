# SPDX-License-Identifier: Apache-2.0
"""The table of routes for the reference of the API: ``python -m tests.service.api_table``."""

from valence_sched.model.verbs import Route
from valence_sched.service.routes import ROUTES


def rows() -> list[tuple[str, str, str]]:
    """Return method and path, the least role, and the description of each route."""
    return [(f"{one.method} {one.path}", _role(one), one.text) for one in ROUTES]


def _role(route: Route) -> str:
    if route.takes_token:
        return "pod manager"
    return route.role if route.rule else "anonymous"


def table() -> str:
    """Return the rows in the format of a list-table."""
    cells = (f"   * - ``{what}``\n     - {role}\n     - {text}\n" for what, role, text in rows())
    return "".join(cells)


if __name__ == "__main__":
    print(table(), end="")
