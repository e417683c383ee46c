# SPDX-License-Identifier: Apache-2.0
"""Makes the sites of scenarios: reads files, follows what they extend, and applies their edits."""

from __future__ import annotations

import dataclasses
import os.path
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from valence_sched.config.scenario_file import ScenarioDocument, parse_scenarios
from valence_sched.config.settings import Configuration
from valence_sched.core.policy import bind
from valence_sched.errors import InputError, UnknownName
from valence_sched.model.policy import WeigherUse
from valence_sched.model.quantity import format_count
from valence_sched.model.scenario import Scenario
from valence_sched.planning.edits import apply_edit
from valence_sched.planning.site import Site

SUFFIXES = (".yaml", ".yml", ".json")  # of a file that is named without a scenario
MAX_EXTENDED = 100  # scenarios that extend one another in a row


class ScenarioKey(NamedTuple):
    """A scenario: its file, and its name there."""

    file: str
    name: str

    def __str__(self) -> str:
        return f"{self.file}#{self.name}"


def scenario_sites(base: Site, references: Sequence[str], config: Configuration) -> list[Site]:
    """Return a site for each scenario that is named, as ``FILE#NAME`` or all of a ``FILE``.

    Each has the name of its scenario, with the file where two have the same.

    Raises:
        InputError: a file is invalid, or scenarios extend each other in a circle.
        UnknownName: no such scenario, policy or weigher.
        NothingMatches, UsageError: as of an edit, with its place in the file.
    """
    scenarios = _Scenarios(base, config)
    keys = [key for reference in references for key in scenarios.keys(reference)]
    keys = list(dict.fromkeys(keys))
    names = Counter(key.name for key in keys)
    named = ((key, key.name if names[key.name] == 1 else str(key)) for key in keys)
    return [scenarios.site(key).named(name) for key, name in named]


class _Scenarios:
    def __init__(self, base: Site, config: Configuration) -> None:
        self._base, self._config = base, config
        self._documents: dict[str, ScenarioDocument] = {}
        self._sites: dict[ScenarioKey, Site] = {}

    def keys(self, reference: str) -> list[ScenarioKey]:
        """Return the scenario that ``FILE#NAME`` names, or all of ``FILE``."""
        file, mark, name = reference.rpartition("#")
        if mark:
            return [self._known(ScenarioKey(os.path.normpath(file), name), "")]
        file = os.path.normpath(reference)
        return [ScenarioKey(file, one) for one in self._document(file).scenarios]

    def site(self, key: ScenarioKey) -> Site:
        """Return the site of a scenario, after all that it extends."""
        chain: list[ScenarioKey] = []
        extended: ScenarioKey | None = key
        while extended is not None and extended not in self._sites:
            place = f"{self._scenario(chain[-1]).place}.extends" if chain else ""
            if extended in chain:
                cycle = [*chain[chain.index(extended) :], extended]
                alone = len({one.file for one in cycle}) == 1
                text = " extends ".join(one.name if alone else str(one) for one in cycle)
                raise InputError(place, "", f"a cycle: {text}", "a scenario that ends it")
            if len(chain) == MAX_EXTENDED:
                raise InputError(place, "", f"more than {MAX_EXTENDED} scenarios in a row", "fewer")
            chain.append(extended)
            extended = self._extended(extended)
        site = self._base if extended is None else self._sites[extended]
        for one in reversed(chain):
            scenario, document = self._scenario(one), self._document(one.file)
            added = (*document.templates, *scenario.templates)
            site = dataclasses.replace(
                site,
                policies={**site.policies, **{each.name: each for each in scenario.policies}},
                flavors={**site.flavors, **{each.name: each for each in scenario.flavors}},
                templates={**site.templates, **{each.name: each for each in added}},
            )
            site = with_policy(site, scenario.policy, scenario.weights, f"{scenario.place}.")
            for number, edit in enumerate(scenario.edits):
                site = apply_edit(site, edit, f"{scenario.place}.edits[{number}]")
            self._sites[one] = site
        return site

    def _document(self, file: str) -> ScenarioDocument:
        if file not in self._documents:
            self._documents[file] = parse_scenarios(self._config.read(file), file)
        return self._documents[file]

    def _scenario(self, key: ScenarioKey) -> Scenario:
        return self._document(key.file).scenarios[key.name]

    def _known(self, key: ScenarioKey, place: str) -> ScenarioKey:
        scenarios = self._document(key.file).scenarios
        if key.name not in scenarios:
            raise UnknownName("scenario", key.name, scenarios, place or key.file)
        return key

    def _extended(self, key: ScenarioKey) -> ScenarioKey | None:
        """Return the scenario that one extends: of its own file, else of another one."""
        scenario = self._scenario(key)
        if scenario.extends is None:
            return None
        place, name = f"{scenario.place}.extends", scenario.extends
        file, mark, inside = name.rpartition("#")
        is_file = name.endswith(SUFFIXES) or os.sep in name
        if not mark and (name in self._document(key.file).scenarios or not is_file):
            return self._known(ScenarioKey(key.file, name), place)
        if not mark:
            file = name
        file = os.path.normpath(os.path.join(os.path.dirname(key.file), file)) if file else key.file
        try:
            names = list(self._document(file).scenarios)
        except InputError as error:
            raise error.at(place) from None
        if mark:
            return self._known(ScenarioKey(file, inside), place)
        if len(names) > 1:
            which = f"one of them, as in {name}#{names[0]}"
            raise InputError(place, "", f"{format_count(len(names), 'scenario')} in {file}", which)
        return ScenarioKey(file, names[0])


def with_policy(
    site: Site, policy: str | None, weights: Mapping[str, float], place: str = ""
) -> Site:
    """Return a site that decides by another policy, or by one with other weights.

    A weigher that the policy does not have is added. UnknownName for an unknown policy or weigher,
    after ``place``.
    """
    name = site.policy if policy is None else policy
    if policy is not None and name not in site.policies:
        raise UnknownName("policy", name, site.policies, f"{place}policy")
    policies = dict(site.policies)
    if weights:
        own = policies[name].weighers
        known = {use.name for use in own}
        weighers = [replace(use, weight=weights.get(use.name, use.weight)) for use in own]
        weighers += [WeigherUse(*item) for item in weights.items() if item[0] not in known]
        policies[name] = replace(policies[name], weighers=tuple(weighers))
        bind(policies[name], f"{place}weights")
    return dataclasses.replace(site, policy=name, policies=policies)
