# SPDX-License-Identifier: Apache-2.0
"""Answers that a browser shows: pages, and problems as pages."""

from __future__ import annotations

from types import MappingProxyType

from valence_sched.model.page import Frame, Lines, Page
from valence_sched.model.problem import Problem
from valence_sched.pages.page_links import PageLinks
from valence_sched.service.call import CallResult

MEDIA_TYPE = "text/html"

#: A page loads nothing, runs nothing, stands in no frame, and sends its form to its own server.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
HEADERS = MappingProxyType(
    {
        "Content-Type": f"{MEDIA_TYPE}; charset=utf-8",
        "Content-Security-Policy": POLICY,
        "Referrer-Policy": "no-referrer",
        "X-Frame-Options": "DENY",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
)


def html_result(page: Page, frame: Frame) -> CallResult:
    """Return the answer that shows a page."""
    from valence_sched.pages.render import site_html  # Jinja2 takes long to import

    return CallResult(site_html(page, frame), headers=HEADERS)


def problem_html(problem: Problem, depth: int) -> bytes:
    """Return a problem as a page that is ``depth`` steps below the first one."""
    from valence_sched.pages.render import site_html

    page = Page(
        title=problem.title,
        lead=problem.detail,
        tone="bad",
        sections=(Lines(title="For its operator", lines=(f"Status {problem.status}, {problem.code}",
                        f"Request {problem.request_id}")),),
    )  # fmt: skip
    return site_html(page, Frame(links=PageLinks(depth).menu("")))
