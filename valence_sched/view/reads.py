# SPDX-License-Identifier: Apache-2.0
"""Reads: how a filter or a weigher declares, next to its function, what of a request it reads.

A request that sets a field is refused by a policy in which no plug-in reads the field, and a
plug-in takes no part in a decision whose request sets none of its fields. A plug-in without a
declaration always takes part.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from valence_sched.model.request import Mix, MixSupplies

CountsBy = Literal["podm", "domain"]
Plugin = TypeVar("Plugin", bound=Callable[..., Any])


class Reads(Struct, frozen=True):
    """Fields of a request that a plug-in reads, of which each asks for something or does not.

    A field asks for something where it is not None and ``when`` holds of its value. A plug-in to
    which the field is ``optional`` has other work too: it takes part in every decision, and no
    policy must have it. ``counts_by`` is for plug-ins that read where the nodes of a group
    or of an owner are, and look only at how many of them are where a pod manager stands: on the
    pod manager itself, or at its value of each domain that the rules of the group mention.
    """

    fields: tuple[str, ...]
    when: Callable[[Any], object] = bool
    counts_by: CountsBy | None = None
    optional: bool = False


def reads(
    field: str,
    *others: str,
    when: Callable[[Any], object] = bool,
    counts_by: CountsBy | None = None,
    optional: bool = False,
) -> Callable[[Plugin], Plugin]:
    """Declare the fields of a request that a filter or weigher reads, as :class:`Reads` says.

    It goes above or below ``terms`` and ``per_pool``, and may stand several times::

        @reads("group", when=lambda group: group.hard, counts_by="domain")
        @terms
        def spread(view: View, request: Request) -> Iterator[Term]: ...
    """

    def declare(plugin: Plugin) -> Plugin:
        declared = Reads((field, *others), when, counts_by, optional)
        plugin.reads = (declared, *declarations(plugin))  # type: ignore[attr-defined]
        return plugin

    return declare


def declarations(plugin: Callable[..., Any]) -> tuple[Reads, ...]:
    """Return what a plug-in declares to read, nothing where it declares nothing."""
    declared = getattr(plugin, "reads", ())
    return declared if isinstance(declared, tuple) else ()


class MixCompletion(NamedTuple):
    """How the mix of a request is completed for a weigher; both functions take its options.

    ``supplies(view, mix)`` returns what all pools of a View supply to each share: of several Views
    with different pools they add up. It is empty if the mix has nothing to be completed, whatever
    the pools are. ``complete(mix, supplies)`` returns the mix.
    """

    supplies: Callable[..., MixSupplies]
    complete: Callable[..., Mix]

    def with_options(self, options: Mapping[str, Any]) -> MixCompletion:
        """Return it with the options of a weigher filled in."""
        return MixCompletion(
            functools.partial(self.supplies, **options), functools.partial(self.complete, **options)
        )


def completes_mix(
    supplies: Callable[..., MixSupplies], complete: Callable[..., Mix]
) -> Callable[[Plugin], Plugin]:
    """Declare what completes the mix of a request for a weigher, from all pools at once.

    The functions are those of a :class:`MixCompletion`. Answers for a row must not depend on other
    rows, so this is worked out now and then, not for every row.
    """

    def declare(plugin: Plugin) -> Plugin:
        plugin.mix_completion = MixCompletion(supplies, complete)  # type: ignore[attr-defined]
        return plugin

    return declare


def penalises_unknown(weigher: Plugin) -> Plugin:
    """Declare the weigher that a policy gets which says ``unknown: penalise`` and has none."""
    weigher.penalises_unknown = True  # type: ignore[attr-defined]
    return weigher
