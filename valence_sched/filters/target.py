# SPDX-License-Identifier: Apache-2.0
"""Target filter: keeps the pod managers that a request names, and rejects excluded ones."""

from collections.abc import Iterator

import numpy as np

from valence_sched.model.request import Request
from valence_sched.view.terms import Term, reads, reads_podm, terms
from valence_sched.view.view import Labels, Mask, View


@reads("podms", "exclude_podms")
@reads_podm("name")
@terms
def target(view: View, request: Request) -> Iterator[Term]:
    """Keeps the named pod managers, by id or name, and rejects the excluded ones."""
    have = Labels(view.podm_ids, view.podm_of)
    if request.podms:
        named = _name_mask(view, request.podms)
        yield Term("pod manager", " or ".join(request.podms), have, holds=named)
    if request.exclude_podms:
        others = ~_name_mask(view, request.exclude_podms)
        yield Term("pod manager", "not " + ", ".join(request.exclude_podms), have, holds=others)


def _name_mask(view: View, names: tuple[str, ...]) -> Mask:
    hits = [podm.id in names or podm.name in names for podm in view.podms]
    return np.array(hits, dtype=bool)[view.podm_of]
