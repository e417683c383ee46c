# SPDX-License-Identifier: Apache-2.0
"""Level weigher: keeps amounts free in every pool of a pod manager."""

from msgspec.structs import replace

from valence_sched.model.request import Request
from valence_sched.view.remaining import Remaining, Within, pool_counts, score_remaining
from valence_sched.view.terms import reads, reads_podm
from valence_sched.view.view import Floats, View

HALF = 12.0  # remaining nodes that score half, added up over the requested resources


@reads("mix", optional=True)
@reads_podm()
def level(view: View, request: Request, *, within: Within = "site") -> Floats:
    """Prefers pools with the largest leftover of requested stocks, in nodes of the mix of flavors.

    The pools of a pod manager stay about equally full, so that small nodes find room in all of
    them. Blocks do not count, because a node takes them whole. ``x`` is the sum of ``free / scale``
    over the requested stocks; the scale is the mean amount in a node of the mix of flavors, else
    the requested amount. A request without stocks scores 0.5. With ``u(x) = x / (12 + x)``,
    differences matter most between pools that are nearly full. On a pod manager with ``n`` pools,
    the score is ``1/2 + (1 - 1/n) * (u(x) - 1/2)``. With ``within: podm``, it is
    ``(1 + u(x) - u(mean x of these pools)) / 2``, so only pools of one pod manager are compared. A
    single pool scores 0.5. Source: worst fit, here absolute.
    """
    stocks = tuple([need for need in request.needs if need.kind == "stock"])
    if not stocks or pool_counts(view).max(initial=1.0) == 1.0:
        return view.constant(0.5)
    if len(stocks) < len(request.needs):
        request = replace(request, needs=stocks)
    return score_remaining(view, request, _SCORES[within], ("level", within), only_requested=True)


def _score(view: View, remaining: Remaining) -> Floats:
    pools = pool_counts(view)
    return 0.5 + (1.0 - 1.0 / pools) * (_use(remaining("pool")) - 0.5)


def _score_within_podm(view: View, remaining: Remaining) -> Floats:
    pools = pool_counts(view)
    score = 0.5 + 0.5 * (_use(remaining("pool")) - _use(remaining("podm") / pools))
    score[pools == 1.0] = 0.5  # even if the pod manager has hardware outside its only pool
    return score


_SCORES = {"site": _score, "podm": _score_within_podm}


def _use(amounts: Floats) -> Floats:
    use: Floats = amounts / (HALF + amounts)
    return use
