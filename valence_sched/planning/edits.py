# SPDX-License-Identifier: Apache-2.0
"""Edits and scenarios: change a site by failures, removals, additions and policies.

If a pool fails, is drained or is removed, the same happens to blocks and stocks that are in no
other pool. Blocks and stocks that are also in other pools only leave this pool. An edit of all
pools of a pod manager is an edit of the pod manager.
"""

import dataclasses
import functools
import itertools
import operator
import os.path
import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self, TypeVar

from msgspec import Raw
from msgspec.structs import replace

from valence_sched import errors
from valence_sched.config.scenario_file import ScenarioDocument, parse_scenarios
from valence_sched.config.settings import Configuration
from valence_sched.core.policy import bind
from valence_sched.errors import InputError
from valence_sched.model import inventory, scenario
from valence_sched.model.inventory import FREE_STATUS, LeanBlock, LeanPodm, Status, to_json
from valence_sched.model.policy import WeigherUse
from valence_sched.model.quantity import format_count
from valence_sched.model.scenario import Edit
from valence_sched.planning import site as sites
from valence_sched.planning.site import Site, TargetMatch, block_names, find_targets, pools_of

MAX_NEW_BLOCKS = 1_000_000  # blocks that one edit adds to a whole site
BLOCKS_URI = "/redfish/v1/CompositionService/ResourceBlocks/"
StatusChange = Callable[[Status], Status]
Edited = tuple[list[LeanPodm], dict[str, int]]  # pod managers, and counts of the effect
BlockOrStock = TypeVar("BlockOrStock", LeanBlock, inventory.Stock)


class StatusChanges:
    """Changes the status of blocks; caches results by status and ``key`` (default: the change)."""

    def __init__(self) -> None:
        self._changed: dict[tuple[Hashable, bytes], Raw | None] = {}

    def apply(self, block: LeanBlock, change: StatusChange, key: Hashable = None) -> LeanBlock:
        text = bytes(block.status or b"")
        at = (key or change, text)
        if at not in self._changed:
            status = change(inventory.parse_status(text))
            self._changed[at] = None if status == FREE_STATUS else Raw(to_json(status))
        return replace(block, status=self._changed[at])


def failed(status: Status) -> Status:
    return replace(status, state="Failed", health="Critical", active=False, compositions=0)


def drained(status: Status) -> Status:
    return replace(status, enabled=False)


def fresh(status: Status) -> Status:  # of a new block with equal limits of sharing
    return Status(shareable=status.shareable, max_compositions=status.max_compositions)


@dataclass(frozen=True, slots=True)
class Scope:
    """The affected pools by id, blocks by number, stocks by URI; or a ``whole`` pod manager."""

    whole: bool
    pools: frozenset[str]
    blocks: frozenset[int]
    stocks: frozenset[str]

    @classmethod
    def of(cls, podm: LeanPodm, match: TargetMatch) -> Self:
        if match.blocks:
            return cls(False, frozenset(), frozenset(match.blocks), frozenset())
        pools = frozenset(pool.id for pool in pools_of(podm))
        if not match.pools or match.pools == pools:
            every = frozenset(range(len(podm.blocks)))
            return cls(True, pools, every, frozenset(stock.uri for stock in podm.stocks))

        @functools.cache
        def alone(names: tuple[str, ...]) -> bool:
            return bool(names) and match.pools.issuperset(sites.members(podm, names))

        return cls(
            False,
            match.pools,
            frozenset(number for number, block in enumerate(podm.blocks) if alone(block.pools)),
            frozenset(stock.uri for stock in podm.stocks if alone(stock.pools)),
        )

    def outside(self, one: BlockOrStock) -> BlockOrStock:
        if self.pools.isdisjoint(one.pools):
            return one
        return replace(one, pools=tuple(pool for pool in one.pools if pool not in self.pools))


def _disrupted(
    podm: LeanPodm, scope: Scope, edit: Edit, statuses: StatusChanges
) -> LeanPodm | None:
    """Return a podm after its scope fails, is drained, or is removed; None if it is removed.

    The nodes of failed and removed blocks are lost, and release their other blocks.
    """
    if (is_removed := isinstance(edit, scenario.Remove)) and scope.whole:
        return None
    is_drained = isinstance(edit, scenario.Drain)
    lost = {podm.blocks[number].uri for number in scope.blocks}
    stay, released = list[inventory.Node](), Counter[str]()
    for node in podm.nodes:
        if is_drained or (not scope.whole and lost.isdisjoint(node.blocks)):
            stay.append(node)
        else:
            released.update(set(node.blocks))
    blocks, stocks = list[LeanBlock](), list[inventory.Stock]()
    for number, block in enumerate(podm.blocks):
        if number not in scope.blocks:
            blocks.append(scope.outside(block))
            if nodes := released[block.uri]:
                change = operator.methodcaller("released", nodes)
                blocks[-1] = statuses.apply(blocks[-1], change, ("released", nodes))
        elif not is_removed:
            blocks.append(statuses.apply(block, drained if is_drained else failed))
    for stock in podm.stocks:
        if stock.uri not in scope.stocks:
            stocks.append(scope.outside(stock))
        elif is_drained:
            stocks.append(replace(stock, total=stock.total and min(stock.total, stock.used)))
        elif not is_removed:
            stocks.append(replace(stock, total=0.0, used=0.0))
    return replace(
        podm,
        status="Offline" if scope.whole and not is_drained else podm.status,
        enabled=podm.enabled and not (scope.whole and is_drained),
        pools=tuple(pool for pool in podm.pools if not (is_removed and pool.id in scope.pools)),
        blocks=tuple(blocks),
        stocks=tuple(stocks),
        nodes=tuple(stay),
    )


def edited(site: Site, edits: Iterable[Edit]) -> Site:
    """Return a site after edits, each applied to the result of the edits before it.

    NothingMatches: the target of an edit does not exist; the message begins with the edit and has
    the nearest name. UsageError: the name of a block to copy matches blocks of several kinds.
    """
    return functools.reduce(apply_edit, edits, site)


def apply_edit(site: Site, edit: Edit, place: str = "") -> Site:
    """Return a site after one edit; same errors as :func:`edited`, which begin with ``place``."""
    text = scenario.edit_text(edit)
    try:
        matches = find_targets(site.podms, edit.target, site.kinds)
        match edit:
            case scenario.Clone():
                podms, counts = _clone(site, edit, matches)
            case scenario.AddBlocks():
                podms, counts = _add(site, edit, matches)
            case scenario.SetAttributes():
                podms, counts = _set(site, edit, matches)
            case _:
                podms, counts = _disrupt(site, edit, matches)
    except errors.SchedulerError as error:
        raise error.at(place or text) from None
    effects = (*site.effects, scenario.EditEffect(edit=text, **counts))
    return dataclasses.replace(site, podms=tuple(podms), effects=effects)


def _disrupt(site: Site, edit: Edit, matches: Sequence[TargetMatch]) -> Edited:
    statuses = StatusChanges()
    scopes = {match.podm: Scope.of(site.podms[match.podm], match) for match in matches}
    podms, nodes = list[LeanPodm](), 0
    for number, podm in enumerate(site.podms):
        after = _disrupted(podm, scopes[number], edit, statuses) if number in scopes else podm
        nodes += len(podm.nodes) - (len(after.nodes) if after else 0)
        podms += [after] if after else []
    names = ("pools", "blocks", "stocks")
    counts = {name: sum(len(getattr(one, name)) for one in scopes.values()) for name in names}
    return podms, {"podms": len(scopes), "nodes": nodes, **counts}


def _clone(site: Site, edit: scenario.Clone, matches: Sequence[TargetMatch]) -> Edited:
    ids, statuses = {podm.id for podm in site.podms}, StatusChanges()
    numbers = {match.podm for match in matches}
    podms, new = list[LeanPodm](), list[LeanPodm]()
    _check_size(edit.times * sum(len(site.podms[number].blocks) for number in numbers))
    for number, podm in enumerate(site.podms):
        copies = list(_clones(podm, edit.times, ids, statuses)) if number in numbers else []
        ids.update(copy.id for copy in copies)
        podms += [podm, *copies]
        new += copies
    counts = {name: sum(len(getattr(podm, name)) for podm in new) for name in ("blocks", "stocks")}
    return podms, {"podms": len(new), "pools": sum(len(pools_of(podm)) for podm in new), **counts}


def _add(site: Site, edit: scenario.AddBlocks, matches: Sequence[TargetMatch]) -> Edited:
    new, podms = NewBlocks(edit, site), list(site.podms)
    pools = sum(len(match.pools) for match in matches)
    _check_size(edit.count * max(pools, len(matches)))
    for match in matches:
        podms[match.podm] = new.added(match)
    before, after = (sum(len(podm.blocks) for podm in each) for each in (site.podms, podms))
    return podms, {"podms": len(matches), "pools": pools, "blocks": after - before}


def _set(site: Site, edit: scenario.SetAttributes, matches: Sequence[TargetMatch]) -> Edited:
    podms, changes, statuses = list(site.podms), edit.changes, StatusChanges()
    change = functools.partial(replace, **changes)
    given = changes.get("capabilities", {}).items()
    given = {key: (value,) if isinstance(value, str) else value for key, value in given}
    for match in matches:
        podm = podms[match.podm]
        if match.blocks:
            blocks = list(podm.blocks)
            for number in match.blocks:
                blocks[number] = statuses.apply(blocks[number], change)
            podms[match.podm] = replace(podm, blocks=tuple(blocks))
        elif match.pools and podm.pools:
            pools = (change(pool) if pool.id in match.pools else pool for pool in podm.pools)
            podms[match.podm] = replace(podm, pools=tuple(pools))
        else:  # a pod manager that lists no pools has one pool with the same traits
            facts = (podm.facts | changes.get("facts", {})).items()
            merged = {
                "facts": {key: value for key, value in facts if value is not None},
                "capabilities": {k: has for k, has in (podm.capabilities | given).items() if has},
            }
            own = {name: merged.get(name, value) for name, value in changes.items()}
            podms[match.podm] = replace(podm, **own)
    counts = {"podms": len(matches), "pools": sum(len(match.pools) for match in matches)}
    return podms, {**counts, "blocks": sum(len(match.blocks) for match in matches)}


def _clones(
    podm: LeanPodm, times: int, ids: Collection[str], statuses: StatusChanges
) -> Iterator[LeanPodm]:
    copy = replace(
        podm,
        url=None,
        identity=None,
        status="Online",
        enabled=True,
        blocks=tuple(_fresh(block, statuses) for block in podm.blocks),
        stocks=tuple(replace(stock, used=0.0) if stock.used else stock for stock in podm.stocks),
        nodes=(),
    )
    numbers = (n for n in itertools.count(2) if f"{podm.id}-{n}" not in ids)
    for number in itertools.islice(numbers, times):
        name = f"{podm.name} ({number})" if podm.name else None
        yield replace(copy, id=f"{podm.id}-{number}", name=name)


def _check_size(blocks: int) -> None:
    if blocks > MAX_NEW_BLOCKS:
        text = f"one edit adds at most {MAX_NEW_BLOCKS:,} blocks, not {blocks:,}"
        raise errors.UsageError(f"{text}: lower the number or select fewer pod managers")


class NewBlocks:
    """Makes the blocks that one edit adds to pod managers."""

    def __init__(self, edit: scenario.AddBlocks, site: Site) -> None:
        self._edit, self._podms, self._kinds = edit, site.podms, site.kinds
        self._templates, self._statuses = site.templates, StatusChanges()
        template = site.templates.get(edit.add)
        self._block: LeanBlock | None = None
        if template is not None:
            devices, most = template.devices, template.max_compositions
            status = Status(shareable=template.shareable, max_compositions=most)
            self._block = LeanBlock(
                uri=re.sub(r"[^\w.-]+", "-", template.name),
                type=template.type,
                places=template.places,
                status=None if status == FREE_STATUS else Raw(to_json(status)),  # type: ignore[arg-type]
                devices=None if devices == inventory.NO_DEVICES else Raw(to_json(devices)),  # type: ignore[arg-type]
            )
        self._podm: LeanPodm | None = None  # the pod manager with the copied block
        if template is None and "@" in edit.add:
            target = scenario.parse_target(edit.add)
            if not target.selects_blocks:
                expected = "expected a template, a block of the pod manager or BLOCK@PODM"
                raise errors.UsageError(f"{edit.add!r} is not a block: {expected}")
            matches = find_targets(self._podms, target, self._kinds)
            pairs = ((self._podms[match.podm], match.blocks) for match in matches)
            blocks = [podm.blocks[number] for podm, numbers in pairs for number in numbers]
            self._podm, self._block = self._podms[matches[0].podm], self._only(blocks)

    def added(self, match: TargetMatch) -> LeanPodm:
        podm = self._podms[match.podm]
        alike, block = self._block_for(podm)
        everywhere = tuple(pool.id for pool in podm.pools)
        if not match.pools:
            regions = [block.pools if alike is podm else everywhere]
        elif podm.pools:
            regions = [(pool,) for pool in everywhere if pool in match.pools]
        else:
            regions = [()]
        if alike is not podm:
            # the copy needs a URI of this pod manager
            first = podm.blocks[0].uri if podm.blocks else BLOCKS_URI
            uri = first[: first.rstrip("/").rfind("/") + 1] + block_names(block)[1]
            block = replace(block, uri=uri)
            block = block if alike is None else replace(block, places=None)
        uris, uri = {one.uri for one in podm.blocks}, block.uri.rstrip("/")
        numbers = (
            n for n in itertools.count(1 if alike is None else 2) if f"{uri}-{n}" not in uris
        )
        new = [
            replace(
                block,
                uri=f"{uri}-{number}",
                name=f"{block.name} ({number})" if block.name else None,
                pools=pools,
            )
            for pools in regions
            for number in itertools.islice(numbers, self._edit.count)
        ]
        return replace(podm, blocks=(*podm.blocks, *new))

    def _block_for(self, podm: LeanPodm) -> tuple[LeanPodm | None, LeanBlock]:
        """Return a new block, and the pod manager with the copied block, None for a template."""
        if self._block is not None:
            return self._podm, self._block
        is_named = sites.name_matcher(self._edit.add)
        found = [block for block in podm.blocks if is_named(block_names(block))]
        if found:
            return podm, self._only(found)
        known = {block_names(block)[1] for block in podm.blocks} | set(self._templates)
        what = f"template, and no block of pod manager {podm.id!r}, named {self._edit.add!r}"
        raise errors.NothingMatches(what, errors.suggest(self._edit.add, known))

    def _only(self, blocks: Sequence[LeanBlock]) -> LeanBlock:
        number = self._kinds.number
        distinct = {number(one.type, one.devices, "site", "$") for one in blocks}
        if len(distinct) > 1:
            names = ", ".join(block_names(one)[1] for one in blocks[:4])
            which = f"{format_count(len(distinct), 'kind')} are named {self._edit.add!r} ({names})"
            raise errors.UsageError(f"blocks of {which}: choose one of them")
        return _fresh(blocks[0], self._statuses)


def _fresh(block: LeanBlock, statuses: StatusChanges) -> LeanBlock:
    return statuses.apply(block, fresh) if block.status else block


SUFFIXES = (".yaml", ".yml", ".json")  # suffixes of scenario files; other references are names
MAX_EXTENDED = 100  # the longest chain of scenarios that extend each other


class ScenarioKey(NamedTuple):
    """A scenario: its file, and its name in it."""

    file: str
    name: str

    def __str__(self) -> str:
        return f"{self.file}#{self.name}"


def scenario_sites(base: Site, references: Sequence[str], config: Configuration) -> list[Site]:
    """Return a site for each named scenario, ``FILE#NAME`` or all of a ``FILE``.

    Each site has the name of its scenario, with the file if two names are equal. InputError: a file
    is invalid, or scenarios extend each other in a cycle. UnknownName: no such scenario, policy or
    weigher. Errors of edits name their place in the file.
    """
    scenarios = _Scenarios(base, config)
    keys = dict.fromkeys(key for one in references for key in scenarios.keys(one))
    names = Counter(key.name for key in keys)
    shown = {key: key.name if names[key.name] == 1 else str(key) for key in keys}
    return [dataclasses.replace(scenarios.site(key), name=name) for key, name in shown.items()]


class _Scenarios:
    """The scenarios of files and their sites, each read and made once."""

    def __init__(self, base: Site, config: Configuration) -> None:
        self._base, self._config = base, config
        self._documents: dict[str, ScenarioDocument] = {}
        self._sites: dict[ScenarioKey, Site] = {}

    def keys(self, reference: str) -> list[ScenarioKey]:
        file, mark, name = reference.rpartition("#")
        file = os.path.normpath(file if mark else reference)
        if mark:
            return [self._known(file, name, file)]
        return [ScenarioKey(file, one) for one in self._document(file).scenarios]

    def site(self, key: ScenarioKey, above: tuple[ScenarioKey, ...] = ()) -> Site:
        """Return the site of a scenario; each scenario ``above`` extends the next one."""
        if key in self._sites:
            return self._sites[key]
        place = f"{self._scenario(above[-1]).place}.extends" if above else ""
        if key in above:
            cycle = [*above[above.index(key) :], key]
            alone = len({one.file for one in cycle}) == 1
            text = " extends ".join(one.name if alone else str(one) for one in cycle)
            raise InputError(place, "", f"a cycle: {text}", "scenarios without a cycle")
        if len(above) == MAX_EXTENDED:
            raise InputError(place, "", f"a chain of over {MAX_EXTENDED} scenarios", "fewer")
        extended, own = self._extended(key), self._scenario(key)
        site = self._base if extended is None else self.site(extended, (*above, key))
        templates = (*self._document(key.file).templates, *own.text.templates)
        site = dataclasses.replace(
            site,
            policies={**site.policies, **{each.name: each for each in own.policies}},
            flavors={**site.flavors, **{each.name: each for each in own.text.flavors}},
            templates={**site.templates, **{each.name: each for each in templates}},
        )
        site = with_policy(site, own.text.policy, own.text.weights, f"{own.place}.")
        for number, edit in enumerate(own.edits):
            site = apply_edit(site, edit, f"{own.place}.edits[{number}]")
        self._sites[key] = site
        return site

    def _document(self, file: str) -> ScenarioDocument:
        if file not in self._documents:
            self._documents[file] = parse_scenarios(*self._config.read(file))
        return self._documents[file]

    def _scenario(self, key: ScenarioKey) -> scenario.Scenario:
        return self._document(key.file).scenarios[key.name]

    def _known(self, file: str, name: str, place: str) -> ScenarioKey:
        scenarios = self._document(file).scenarios
        if name not in scenarios:
            raise errors.UnknownName("scenario", name, scenarios, place)
        return ScenarioKey(file, name)

    def _extended(self, key: ScenarioKey) -> ScenarioKey | None:
        own = self._scenario(key)
        if own.text.extends is None:
            return None
        place, name = f"{own.place}.extends", own.text.extends
        file, mark, inside = name.rpartition("#")
        if not mark:
            is_file = name.endswith(SUFFIXES) or os.sep in name
            if name in self._document(key.file).scenarios or not is_file:
                return self._known(key.file, name, place)
            file = name
        file = os.path.normpath(os.path.join(os.path.dirname(key.file), file)) if file else key.file
        try:
            names = list(self._document(file).scenarios)
        except InputError as error:
            raise error.at(place) from None
        if mark:
            return self._known(file, inside, place)
        if len(names) > 1:
            which = f"one of them, as in {name}#{names[0]}"
            raise InputError(place, "", f"{format_count(len(names), 'scenario')} in {file}", which)
        return ScenarioKey(file, names[0])


def with_policy(
    site: Site, policy: str | None, weights: Mapping[str, float], place: str = ""
) -> Site:
    name = site.policy if policy is None else policy
    if policy is not None and name not in site.policies:
        raise errors.UnknownName("policy", name, site.policies, f"{place}policy")
    policies = dict(site.policies)
    if weights:
        own = policies[name].weighers
        known = {use.name for use in own}
        weighers = [replace(use, weight=weights.get(use.name, use.weight)) for use in own]
        weighers += [WeigherUse(*item) for item in weights.items() if item[0] not in known]
        policies[name] = replace(policies[name], weighers=tuple(weighers))
        bind(policies[name], f"{place}weights")
    return dataclasses.replace(site, policy=name, policies=policies)
