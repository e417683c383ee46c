# SPDX-License-Identifier: Apache-2.0
"""Site: pod managers at one moment, with the policies and flavors that decide on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from valence_sched.config.settings import Configuration
from valence_sched.core.decider import Decider
from valence_sched.inventory.loader import InventoryLoader
from valence_sched.model.codec import decode
from valence_sched.model.flavor import Flavor
from valence_sched.model.inventory import FullPodm, LeanPodm, to_json
from valence_sched.model.policy import Policy
from valence_sched.model.reading import Selection
from valence_sched.model.request import FlavorShare, Mix
from valence_sched.model.scenario import EditEffect, Template
from valence_sched.view.block_kinds import BlockKinds
from valence_sched.view.builder import ViewBuilder
from valence_sched.view.view import View

BASE = "base"  # the name of a site without edits


@dataclass(frozen=True, eq=False)
class Site:
    """What one question is asked about; edits make other sites, and this one never changes.

    ``podms`` are pod managers as a loader yields them, without what claims hold and their blocks
    undecoded. ``policy`` is the one of requests that name none. ``kinds`` are those of the blocks,
    shared with the sites that are made of this one. ``skipped`` are lines about what could not be
    read, ``effects`` what the edits touched that made the site.
    """

    name: str
    podms: tuple[LeanPodm, ...]
    policies: Mapping[str, Policy]
    flavors: Mapping[str, Flavor]
    templates: Mapping[str, Template] = field(default_factory=dict)
    policy: str = "default"
    skipped: tuple[str, ...] = ()
    effects: tuple[EditEffect, ...] = ()
    kinds: BlockKinds = field(default_factory=BlockKinds, repr=False)
    _views: list[View] = field(default_factory=list, init=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the View out: who unpickles a site builds it again."""
        return {**self.__dict__, "kinds": BlockKinds(), "_views": []}

    def view(self) -> View:
        """Return the View, built once; InputError if a pod manager is invalid, or its id twice."""
        if not self._views:
            builder = ViewBuilder(self.kinds)
            for number, podm in enumerate(self.podms):
                builder.add(podm, f"site {self.name}", f"$.podms[{number}]")
            self._views.append(builder.view())
        return self._views[0]

    def mix(self) -> Mix:
        """Return the mix of all flavors, each by its share."""
        flavors = [flavor for flavor in self.flavors.values() if flavor.share]
        return Mix(tuple(FlavorShare(one.needs, one.traits, one.share) for one in flavors))

    def decider(self, *, strict: bool = False) -> Decider:
        """Return a decider on the site, with its policies and its mix."""
        policies = self.policies.values()
        return Decider(self.view(), policies, mix=self.mix, skipped=self.skipped, strict=strict)

    def documents(self) -> Iterator[FullPodm]:
        """Yield the pod managers as an inventory file has them."""
        for number, podm in enumerate(self.podms):
            yield decode(to_json(podm), FullPodm, f"site {self.name}", f"$.podms[{number}]")

    def named(self, name: str) -> Site:
        """Return the site with another name."""
        return dataclasses.replace(self, name=name)


def load_site(loader: InventoryLoader, config: Configuration, selection: Selection) -> Site:
    """Return the site of a selection: what a decision would be made on now.

    Raises:
        UsageError, InputError, InventoryIncomplete, InventoryStale: as for a view.
        InputError, UnknownName: a file of policies or flavors is invalid.
    """
    view, podms = loader.view_and_podms(selection)
    policies, flavors = selection.policy_files, selection.flavor_files
    files = config.policies(policies), config.flavors(flavors)
    site = Site(BASE, podms, *files, skipped=tuple(loader.skipped()), kinds=view.kinds)
    site._views.append(view)
    return site


def site_of(podms: Iterable[FullPodm], config: Configuration, selection: Selection) -> Site:
    """Return the site of pod managers that another scheduler decides on; errors as of the files."""
    lean = (
        decode(to_json(podm), LeanPodm, "the service", f"$[{number}]")
        for number, podm in enumerate(podms)
    )
    policies = config.policies(selection.policy_files)
    return Site(BASE, tuple(lean), policies, config.flavors(selection.flavor_files))
