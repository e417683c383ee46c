# SPDX-License-Identifier: Apache-2.0
"""Additions: clones of pod managers, and new blocks of a template or like another one."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Raw
from msgspec.structs import replace

from valence_sched.errors import NothingMatches, UsageError, one_line, suggest
from valence_sched.model.inventory import (
    FREE_STATUS,
    NO_DEVICES,
    LeanBlock,
    LeanPodm,
    Status,
    to_json,
)
from valence_sched.model.quantity import format_count
from valence_sched.model.scenario import AddBlocks, Template
from valence_sched.model.target import Target, parse_target
from valence_sched.planning.statuses import StatusChanges, fresh
from valence_sched.planning.targets import TargetMatch, block_names, find_targets, name_matcher
from valence_sched.view.block_kinds import BlockKinds

MAX_NEW_BLOCKS = 1_000_000  # of one edit on a whole site
BLOCKS_URI = "/redfish/v1/CompositionService/ResourceBlocks/"


def clones(
    podm: LeanPodm, times: int, taken: Collection[str], statuses: StatusChanges
) -> Iterator[LeanPodm]:
    """Yield so many copies of a pod manager: Online and enabled, all of its hardware working.

    They share its blocks, have no nodes, and neither its URL nor its identity. They are named by
    the next numbers that are not ``taken``.
    """
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
    numbers = (n for n in itertools.count(2) if f"{podm.id}-{n}" not in taken)
    for number in itertools.islice(numbers, times):
        name = f"{podm.name} ({number})" if podm.name else None
        yield replace(copy, id=f"{podm.id}-{number}", name=name)


def check_size(blocks: int) -> None:
    """Raise UsageError for more new blocks than one edit may add to a site."""
    if blocks > MAX_NEW_BLOCKS:
        raise UsageError(f"{blocks:,} new blocks, and at most {MAX_NEW_BLOCKS:,} may be added by "
                         "one edit: lower the number or select fewer pod managers")  # fmt: skip


class NewBlocks:
    """Makes the blocks that one edit adds to pod managers."""

    def __init__(
        self,
        edit: AddBlocks,
        podms: Sequence[LeanPodm],
        templates: Mapping[str, Template],
        kinds: BlockKinds,
        statuses: StatusChanges,
    ) -> None:
        self._edit, self._podms, self._kinds = edit, podms, kinds
        self._templates, self._statuses = templates, statuses
        template = templates.get(edit.add)
        self._block = None if template is None else template_block(template)
        self._podm: LeanPodm | None = None  # of the block that new ones are like
        if template is None and "@" in edit.add:
            self._podm, self._block = self._block_at(parse_target(edit.add))

    def added(self, match: TargetMatch) -> LeanPodm:
        """Return a pod manager with the new blocks: so many in each pool that is matched, else all.

        Raises:
            NothingMatches, UsageError: the block that they are like is unknown, or ambiguous.
        """
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
            block = replace(block, uri=_uri_beside(podm, block))
            block = block if alike is None else replace(block, places=None)
        copies = _copies(block, podm, from_template=alike is None)
        new = (
            replace(copy, pools=pools)
            for pools in regions
            for copy in itertools.islice(copies, self._edit.count)
        )
        return replace(podm, blocks=(*podm.blocks, *new))

    def _block_for(self, podm: LeanPodm) -> tuple[LeanPodm | None, LeanBlock]:
        """Return a new block, and the pod manager that has the one that it is like."""
        if self._block is not None:
            return self._podm, self._block
        is_named = name_matcher(self._edit.add)
        found = [block for block in podm.blocks if is_named(block_names(block))]
        if found:
            return podm, self._only(found, podm)
        known = {block_names(block)[1] for block in podm.blocks} | set(self._templates)
        what = f"template, and no block of pod manager {podm.id!r}, named {self._edit.add!r}"
        raise NothingMatches(what, suggest(self._edit.add, known))

    def _block_at(self, target: Target) -> tuple[LeanPodm, LeanBlock]:
        if not target.selects_blocks:
            raise UsageError(one_line(f"{self._edit.add!r} is no block: expected a template, a "
                                      "block of the pod manager or BLOCK@PODM"))  # fmt: skip
        matches = find_targets(self._podms, target, self._kinds)
        podm = self._podms[matches[0].podm]
        found = [self._podms[match.podm].blocks[number]
                 for match in matches for number in match.blocks]  # fmt: skip
        return podm, self._only(found, podm)

    def _only(self, blocks: Sequence[LeanBlock], podm: LeanPodm) -> LeanBlock:
        """Return the first of some blocks, a new one of its kind; UsageError if they differ."""
        number = self._kinds.number
        distinct = {number(one.type, one.devices, "site", "$") for one in blocks}
        if len(distinct) > 1:
            names = ", ".join(block_names(one)[1] for one in blocks[:4])
            which = f"{format_count(len(distinct), 'kind')} are named {self._edit.add!r} ({names})"
            raise UsageError(one_line(f"blocks of {which}: name one of them"))
        return _fresh(blocks[0], self._statuses)


def template_block(template: Template) -> LeanBlock:
    """Return a new block of a template; its URI is only the name of the template."""
    status = Status(shareable=template.shareable, max_compositions=template.max_compositions)
    return LeanBlock(
        uri=re.sub(r"[^\w.-]+", "-", template.name),
        type=template.type,
        places=template.places,
        status=None if status == FREE_STATUS else Raw(to_json(status)),  # type: ignore[arg-type]
        devices=None if template.devices == NO_DEVICES else Raw(to_json(template.devices)),  # type: ignore[arg-type]
    )


def _fresh(block: LeanBlock, statuses: StatusChanges) -> LeanBlock:
    return statuses.apply(block, fresh) if block.status else block


def _uri_beside(podm: LeanPodm, block: LeanBlock) -> str:
    """Return the URI of a block as it would be in another pod manager."""
    first = podm.blocks[0].uri if podm.blocks else BLOCKS_URI
    return first[: first.rstrip("/").rfind("/") + 1] + block_names(block)[1]


def _copies(block: LeanBlock, podm: LeanPodm, *, from_template: bool) -> Iterator[LeanBlock]:
    """Yield copies of a block whose URIs the pod manager does not have, numbered on."""
    taken = {one.uri for one in podm.blocks}
    uri = block.uri.rstrip("/")
    for number in itertools.count(1 if from_template else 2):
        if f"{uri}-{number}" not in taken:
            name = f"{block.name} ({number})" if block.name else None
            yield replace(block, uri=f"{uri}-{number}", name=name)
