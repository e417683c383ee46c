# SPDX-License-Identifier: Apache-2.0
"""Handlers of the pages that a browser shows: the site, decisions, records, and problems."""

import datetime
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta
from msgspec.structs import replace

from valence_sched.errors import NoPodm, RequestError, UnknownName
from valence_sched.model.base import Noun
from valence_sched.model.claim import ACTIVE_STATES, FINAL_STATES
from valence_sched.model.codec import convert
from valence_sched.model.decision import Report, Reports, with_podm_paths
from valence_sched.model.flavor import Properties
from valence_sched.model.hardware import BlockFilter, BlockOverview, PodmOverview, PoolOverview
from valence_sched.model.http import Problem
from valence_sched.model.inventory import HIDDEN
from valence_sched.model.lifecycle import NodeStatus
from valence_sched.model.page import Frame, Lines, Page, SearchField
from valence_sched.model.request_spec import RequestSpec
from valence_sched.model.scheduler import Scheduler
from valence_sched.model.zone import ZonedList, silent_zones
from valence_sched.pages import site as pages
from valence_sched.pages.decision import decision_page
from valence_sched.pages.hardware import CLAIM, HardwareListing, hardware_listing, old_readings
from valence_sched.pages.render import POLICY, PageLinks, query_text
from valence_sched.service.call import Call, CallResult
from valence_sched.service.handlers import verbs
from valence_sched.service.visibility import visible_claim
from valence_sched.words.phrases import missing_line

HTML = "text/html"

#: A page cannot be framed, and sends its form only to its own server.
HTML_HEADERS = MappingProxyType(
    {
        "Content-Type": f"{HTML}; charset=utf-8",
        "Content-Security-Policy": f"{POLICY}'self'; frame-ancestors 'none'",
        "Referrer-Policy": "no-referrer",
        "X-Frame-Options": "DENY",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
)


def problem_html(problem: Problem, depth: int) -> bytes:
    """Return a problem as a page that is ``depth`` steps below the first page."""
    from valence_sched.pages.render import site_html

    lines = (f"Status {problem.status}, {problem.code}", f"Request {problem.request_id}")
    sections = (Lines(title="For the operator", lines=lines),)
    lead = EMPTY_SITE if problem.code == NoPodm.code else problem.detail
    page = Page(title=problem.title, lead=lead, tone="bad", sections=sections)
    return site_html(page, Frame(links=PageLinks(depth).menu("")))


EMPTY_SITE = "No pod manager is registered: podm create NAME URL registers one"
MOST_PODMS = 24  # pod managers whose hardware one page draws
MOST_BLOCKS = 20_000  # blocks that one page draws; a pod manager with more is shown alone
MOST_ROWS = 100  # rows of a list on one page

T = TypeVar("T")
Words = Annotated[str, Meta(max_length=1024)]
Number = Annotated[int, Meta(ge=1, le=10_000)]


class SiteQuery(Noun, frozen=True, kw_only=True):
    """The pod managers to show, with ``search`` in their name, id or zone."""

    search: Words = ""
    page: Number = 1


FIT = "Would it fit?"
Amount = Annotated[int, Meta(ge=1, le=10**12)] | Literal[""]


class FitQuery(Noun, frozen=True, kw_only=True):
    """A request in a form; empty fields are not requested."""

    flavor: Words = ""
    cores: Amount = ""
    memory_gib: Amount = ""
    gpus: Amount = ""
    gpu_model: Words = ""
    drive_gib: Amount = ""
    zone: Words = ""
    count: Annotated[int, Meta(ge=1, le=1_000_000)] = 1

    @property
    def asks(self) -> bool:
        return bool(self.flavor or self._properties())

    def spec(self) -> RequestSpec:
        """Return the request; RequestError for amounts together with a flavor."""
        properties = self._properties()
        if self.flavor and properties:
            raise RequestError("give a flavor or amounts of hardware, not both")
        return RequestSpec(
            id="request",  # a reload gives the same decision
            flavor=self.flavor or None,
            properties=convert(properties, Properties, "the form") if properties else None,
            zone=self.zone or None,
            count=self.count,
        )

    def _properties(self) -> dict[str, Any]:
        made: dict[str, Any] = {}
        if self.cores:
            made["processor"] = {"total_cores": self.cores}
        if self.memory_gib:
            made["memory"] = {"capacity_mib": self.memory_gib * 1024}
        if self.gpus or self.gpu_model:
            model = {"model": self.gpu_model} if self.gpu_model else {}
            made["accelerators"] = [{"kind": "GPU", "count": self.gpus or 1} | model]
        if self.drive_gib:
            made["drives"] = [{"capacity_gib": self.drive_gib}]
        return made


class DecisionsPageQuery(Noun, frozen=True, kw_only=True):
    """The part of the decisions to show."""

    page: Number = 1


class RecordsQuery(Noun, frozen=True, kw_only=True):
    """The claims or nodes to show; ``ended``: also claims that have ended."""

    owner: Words = ""
    podm: Words = ""
    ended: bool = False
    page: Number = 1

    @property
    def skip(self) -> int:
        return (self.page - 1) * MOST_ROWS


def site(call: Call) -> CallResult:
    """Show the site, or the pod managers that a search finds, as a page."""
    wanted = call.query_noun(SiteQuery)
    try:
        podms, word = _podms(call), wanted.search.casefold()
    except NoPodm:
        return _shown(call, Page(title="Site", lead=EMPTY_SITE, sections=()), "Site", PageLinks(0))
    named = ((one, (one.podm.id, one.podm.name, one.podm.zone)) for one in podms)
    found = [one for one, names in named if any(name and word in name.casefold() for name in names)]
    skip, links = (wanted.page - 1) * MOST_PODMS, PageLinks(0)
    part, rest = found[skip : skip + MOST_PODMS], found[skip + MOST_PODMS :]
    around = _around(wanted.page, skip, part, bool(rest), {"search": wanted.search}, len(found))
    page = pages.site_page(found, _hardware(call, part, links))
    page = _with_silent(page, podms, "pod managers")
    fields = (SearchField(name="search", label="Name or zone", value=wanted.search),)
    return _shown(call, page, "Site", links, fields=fields, **around)


def podm(call: Call) -> CallResult:
    """Show a pod manager as a page, with its blocks and their claims and nodes."""
    one = _podm(call, call.name())
    links = PageLinks(2)
    usage = verbs.block_usage(call, one.podm.id)
    page = pages.podm_page(one, _hardware(call, [one], links), usage, links)
    return _shown(call, page, "", links)


def block(call: Call) -> CallResult:
    """Show a block as a page, with the nodes and claims that use it."""
    with call.reading() as scheduler:
        found = call.visible(scheduler.block(call.name(), call.text("podm") or None))
    links = PageLinks(2)
    usage = verbs.block_usage(call, found.podm)
    page = pages.block_page(found, _podm(call, found.podm), usage, links)
    return _shown(call, page, "", links)


def decisions(call: Call) -> CallResult:
    """Show the newest saved decisions as a page."""
    wanted = call.query_noun(DecisionsPageQuery)
    skip = (wanted.page - 1) * MOST_ROWS
    stored = call.parts.store().decisions
    found = stored.newest(MOST_ROWS + 1, skip=skip, owner=call.user.owner)
    links = PageLinks(1)
    around = _around(wanted.page, skip, found[:MOST_ROWS], len(found) > MOST_ROWS, {})
    page = pages.decisions_page(found[:MOST_ROWS], links)
    return _shown(call, page, "Decisions", links, **around)


def decision(call: Call) -> CallResult:
    """Show a saved decision as a page, on the present hardware."""
    links = PageLinks(2)
    return _shown(call, _decision(call, verbs.decision(call), links), "", links)


def fit(call: Call) -> CallResult:
    """Show whether a request would fit now, where, and why not; nothing is claimed or saved."""
    wanted, links = call.query_noun(FitQuery), PageLinks(1)
    with call.reading() as scheduler:
        fields = _fit_fields(wanted, [one.name for one in scheduler.flavors()])
        if not wanted.asks:
            page = Page(title=FIT, lead="Enter a flavor or amounts of hardware", sections=())
            return _shown(call, page, FIT, links, fields=fields, button="Decide")
        request = call.compiled(scheduler, wanted.spec())
        found = scheduler.select_destinations(request, detail="report").report
    page = replace(_decision(call, found, links), title=FIT)
    return _shown(call, page, FIT, links, fields=fields, button="Decide")


def _decision(call: Call, decided: Report | Reports, links: PageLinks) -> Page:
    report = call.visible(decided)
    reports = report.decisions if isinstance(report, Reports) else (report,)
    named = {
        one.podm
        for each in map(with_podm_paths, reports)
        for placement in each.placements
        for one in (placement.chosen, *placement.alternates)
    }
    podms = _podms(call) if named else ()
    drawn = [one for one in podms if one.podm.id in named][:MOST_PODMS]
    return decision_page(report, _hardware(call, drawn, links))


def _fit_fields(wanted: FitQuery, flavors: Sequence[str]) -> tuple[SearchField, ...]:
    labels = ("Flavor", "or cores", "Memory GiB", "GPUs", "GPU model", "Drive GiB", "Zone", "Nodes")
    first, *others = (
        SearchField(name=name, label=label, value=str(getattr(wanted, name) or ""))
        for name, label in zip(FitQuery.__struct_fields__, labels, strict=True)
    )
    return replace(first, choices=("", *flavors)), *others


def claims(call: Call) -> CallResult:
    """Show the claims that the user may see as a page, the newest first."""
    wanted = call.query_noun(RecordsQuery)
    owner, podm, ended = call.user.owner or wanted.owner or None, wanted.podm or None, wanted.ended
    found = _over_zones(call, lambda zone: zone.claims(podm=podm, owner=owner, ended=ended))
    if found is None:
        stored = call.parts.store().claims
        stored.expire()
        states = (*ACTIVE_STATES, *(FINAL_STATES if ended else ()))
        part, every = stored.newest(
            MOST_ROWS, skip=wanted.skip, states=states, podm=podm, owner=owner
        )
    else:
        ordered = sorted(found, key=lambda one: -one.created_at)
        part, every = ordered[wanted.skip :][:MOST_ROWS], len(found)
    page = pages.claims_page(part, PageLinks(1), every=every)
    return _records(call, wanted, _with_silent(page, found, "claims"), "Claims", part, every)


def claim(call: Call) -> CallResult:
    """Show a claim as a page, with its nodes and events."""
    record = verbs.claim_record(call)
    links = PageLinks(2)
    return _shown(call, pages.claim_page(record, links), "", links)


def nodes(call: Call) -> CallResult:
    """Show the nodes that the user may see as a page, the newest first."""
    wanted = call.query_noun(RecordsQuery)
    owner, podm = call.user.owner or wanted.owner or None, wanted.podm or None
    found = _over_zones(call, lambda scheduler: scheduler.nodes(podm=podm, owner=owner))
    if found is None:
        newest = call.parts.store().nodes.newest
        stored, every = newest(MOST_ROWS, skip=wanted.skip, podm=podm, owner=owner)
        part = [NodeStatus(node=node, state=node.state) for node in stored]
    else:
        ordered = sorted(found, key=lambda one: -one.node.created_at)
        part, every = ordered[wanted.skip :][:MOST_ROWS], len(found)
    page = pages.nodes_page(part, PageLinks(1), every=every)
    return _records(call, wanted, _with_silent(page, found, "nodes"), "Nodes", part, every)


def _records(
    call: Call, wanted: RecordsQuery, page: Page, title: str, part: Sequence[object], every: int
) -> CallResult:
    query = {"owner": wanted.owner, "podm": wanted.podm, "ended": "true" if wanted.ended else ""}
    more = wanted.skip + MOST_ROWS < every
    around = _around(wanted.page, wanted.skip, part, more, query, every)
    fields = [SearchField(name="podm", label="Podm", value=wanted.podm)]
    if call.user.owner is None:
        fields.append(SearchField(name="owner", label="Owner", value=wanted.owner))
    if wanted.ended and title == "Claims":
        fields.append(SearchField(name="ended", label="", value="true"))
    return _shown(call, page, title, PageLinks(1), fields=tuple(fields), **around)


def node(call: Call) -> CallResult:
    """Show a node as a page, by ID or URI; a node without a claim by URI and pod manager."""
    name, podm, owner = call.name(), call.text("podm") or None, call.user.owner
    links = PageLinks(2)
    with call.parts.schedulers.changing() as scheduler:
        for status in scheduler.nodes(podm=podm, owner=owner):
            if name == status.node.id or (podm and name == status.node.uri):
                events = visible_claim(scheduler, status.node.claim, call.user.owner).events
                return _shown(call, pages.node_page(status, events, links), "", links)
    if podm:
        one = _podm(call, podm)
        for found in one.podm.nodes:
            if name == found.uri and not name.startswith((HIDDEN, CLAIM)):
                return _shown(call, pages.unmanaged_node_page(one, found, links), "", links)
    raise UnknownName("node", name, ())


def _podms(call: Call) -> Sequence[PodmOverview]:
    with call.reading() as scheduler:
        found = scheduler.podms()
    shown: Sequence[PodmOverview] = call.visible(found)
    return shown


def _podm(call: Call, name: str) -> PodmOverview:
    with call.reading() as scheduler:
        found: PodmOverview = call.visible(scheduler.podm(name))
    return found


def _over_zones(call: Call, ask: Callable[[Scheduler], Sequence[T]]) -> ZonedList[T] | None:
    if call.parts.zone is None:
        return None
    with call.parts.schedulers.changing() as scheduler:
        found = ask(scheduler)
    return found if isinstance(found, ZonedList) else None


def _with_silent(page: Page, found: object, noun: str) -> Page:
    silent = silent_zones(found)
    if not silent:
        return page
    lacking = Lines(title="Zones without an answer", lines=(missing_line(silent, noun),))
    return replace(page, sections=(lacking, *page.sections))


def _around(
    page: int,
    skip: int,
    part: Sequence[object],
    more: bool,
    query: Mapping[str, object],
    every: int | None = None,
) -> dict[str, str]:
    """Return the frame fields of a part of a list: its range, and links to the adjacent parts."""
    if page == 1 and not more:
        return {}
    of = "" if every is None else f" of {every:,}"
    text = f"{skip + 1:,} to {skip + len(part):,}{of}" if part else f"past the end{of}"
    previous = query_text({**query, "page": page - 1 if page > 2 else None})
    before = (previous or "?") if page > 1 else ""
    after = query_text({**query, "page": page + 1}) if more else ""
    return {"range": text, "before": before, "after": after}


def _hardware(call: Call, podms: Sequence[PodmOverview], links: PageLinks) -> HardwareListing:
    """Return the hardware of pod managers, without blocks if they are too many to draw."""
    pools: list[PoolOverview] = []
    blocks: list[BlockOverview] = []
    shown: list[PodmOverview] = []
    with call.reading() as scheduler:
        for one in podms:
            if shown and len(blocks) + one.amounts.blocks[1] > MOST_BLOCKS:
                continue
            try:
                pools += scheduler.pools(one.podm.id)
                blocks += scheduler.blocks(BlockFilter(podm=one.podm.id))
            except UnknownName:
                continue  # it was deleted after the list was read
            shown.append(one)
    old = old_readings(shown, datetime.datetime.now(datetime.UTC))
    return hardware_listing(shown, pools, call.visible(blocks), old, links)


def _shown(call: Call, page: Page, current: str, links: PageLinks, **form: Any) -> CallResult:
    """Show a page; ``form`` has further fields of its frame."""
    from valence_sched.pages.render import site_html  # Jinja2 is slow to import

    frame = Frame(links=links.menu(current), user=call.user.name, **form)
    return CallResult(site_html(call.visible(page), frame), headers=HTML_HEADERS)
