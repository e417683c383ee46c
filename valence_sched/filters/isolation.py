# SPDX-License-Identifier: Apache-2.0
"""Isolation filter: keeps reserved pod managers for their owners."""

from collections.abc import Iterator

from valence_sched.model.inventory import RESERVED_FOR
from valence_sched.model.request import Request
from valence_sched.view.terms import Term, reads, reads_podm, terms
from valence_sched.view.view import Labels, View


@reads("owner", optional=True)
@reads_podm("capabilities.{key}")
@terms
def isolation(view: View, request: Request, *, key: str = RESERVED_FOR) -> Iterator[Term]:
    """Keeps pod managers that are not reserved for other owners.

    A pod manager is reserved for the owners that its capability ``key`` names. A request without an
    owner uses no reserved pod manager. Source: AggregateMultiTenancyIsolation of Nova.
    """
    capabilities = view.capabilities
    if not view.memoise(("reserved", key), lambda: any(key in has for has in capabilities.values)):
        return
    owner = request.owner
    owners = [", ".join(filter(None, has.get(key, ()))) for has in capabilities.values]
    holds = capabilities.where(lambda has: not any(has.get(key, ())) or owner in has[key])
    have = Labels([f"for {one}" if one else "unreserved" for one in owners], capabilities.codes)
    yield Term("reserved", f"for {owner}" if owner else "unreserved", have, holds=holds)
