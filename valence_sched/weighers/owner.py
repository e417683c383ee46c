# SPDX-License-Identifier: Apache-2.0
"""Owner weigher: spreads the nodes of one owner over pod managers."""

from valence_sched.model.request import Request
from valence_sched.view.terms import reads, reads_podm
from valence_sched.view.view import Floats, View, domain_index


@reads("owner", counts_by="podm")
@reads_podm("nodes")
def owner(view: View, request: Request) -> Floats:
    """Prefers pod managers that hold few of the owner's nodes.

    The score is ``1 / (1 + n)``: ``n`` is the number of nodes of the request's owner on the pod
    manager, including the placed nodes of this request. Without an owner, the weigher is inactive.
    """
    owned = domain_index(view, "podm").largest_count(request.group_state.owned)
    return 1.0 / (1.0 + owned)
