# SPDX-License-Identifier: Apache-2.0
"""The WSGI application of the service: routes, bodies, users, problems, logs."""

import json
import logging
import re
import time
import types
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote_plus

import falcon
import msgspec
from msgspec.structs import replace

from valence_sched import errors
from valence_sched.model import claim, codec, http, redact, verbs, zone
from valence_sched.model.base import digest_of
from valence_sched.model.http import MEDIA_TYPE, Problem, http_problem, problem_of
from valence_sched.model.inventory import to_json
from valence_sched.model.quantity import format_count
from valence_sched.model.request_spec import RequestSpec
from valence_sched.service import call as calls, routes, visibility
from valence_sched.service.handlers.ui import HTML, HTML_HEADERS, problem_html
from valence_sched.service.metrics import Metrics
from valence_sched.service.users import Access, User

NAME = "the body"
NUL_FOUND, NUL_EXPECTED = "the character U+0000", "text without it"
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")  # a NUL character in a JSON text
_CODINGS = ("", "chunked", "identity")
_VALENCE_FIELDS = {"flavor_id", "properties"}
LOG = logging.getLogger("valence_sched.service")
EVENTS = "/v1/events/"
EVENT_BYTES = 1 << 20  # largest event of a pod manager
REQUEST_ID = "X-Openstack-Request-Id"
MALFORMED = (400, 406)  # HTTP statuses of requests that are refused before authentication
_REQUEST_ID = re.compile(r"req-[A-Za-z0-9-]{1,60}")
ANSWER = "answer-"  # prefix of the IDs of recorded answers

#: Claims, nodes and operations store the key themselves.
KEYED_BODIES = (verbs.ClaimBody, verbs.NodesBody, verbs.ReconcileBody, zone.ZoneClaimBody)
_KEY = re.compile(r"[!-~]([ -~]{0,253}[!-~])?")


def read_body(req: falcon.Request, kind: type[Any], most: int) -> Any:
    """Return the body as a noun; an empty body is an empty object.

    Raises InputError unless the body is JSON of the noun; falcon.HTTPError for another media type,
    an unknown transfer coding or length, and a body of more than ``most`` bytes.
    """
    data = _bounded(req, most)
    # also required for an empty body: pages of other sites cannot send this type (CSRF)
    if (req.content_type or "").partition(";")[0].strip().lower() != falcon.MEDIA_JSON:
        text = f"the content type must be {falcon.MEDIA_JSON}"
        raise falcon.HTTPUnsupportedMediaType(description=text)
    data = data or b"{}"
    if _NUL.search(data):  # a state on PostgreSQL cannot store it
        raise errors.InputError(NAME, "", NUL_FOUND, NUL_EXPECTED)
    codec.check_depth(data, NAME)  # later code recurses as deeply as the document
    codec.refuse_duplicate_keys(data, NAME)
    if kind is verbs.NodesBody and _is_of_valence(data):
        document = codec.decode(data, dict[str, Any], NAME)
        valence = codec.convert(document, verbs.ValenceNodeBody, NAME)
        podms = () if valence.podm_id is None else (valence.podm_id,)
        flavor, own = valence.flavor_id, valence.properties
        try:
            spec = RequestSpec(id=valence.name, flavor=flavor, properties=own, podms=podms)
            return verbs.NodesBody(request=spec)
        except ValueError as error:
            text = str(error).removeprefix("Expected ")
            raise errors.InputError(NAME, "$", expected=text) from None
    return codec.decode(data, kind, NAME)


def _bounded(req: falcon.Request, most: int) -> bytes:
    coding = req.env.get("HTTP_TRANSFER_ENCODING", "")
    if coding.strip().lower() not in _CODINGS:
        text = f"transfer coding {coding!r}: send the body as it is, or chunked"
        raise falcon.HTTPNotImplemented(description=errors.one_line(text, 200))
    length = req.content_length
    if length is not None and length > most:
        raise _too_large(most)
    terminated = req.env.get("wsgi.input_terminated")
    if length is None and not terminated:
        if "HTTP_TRANSFER_ENCODING" in req.env:  # a body that this server does not decode
            raise falcon.HTTPLengthRequired(description="send the body with its Content-Length")
        return b""
    stream = req.stream if terminated else req.bounded_stream
    try:
        data: bytes = stream.read(most + 1 if length is None else length)
    except Exception as error:  # each server has its own errors for an unreadable body
        text = errors.one_line(f"the body cannot be read: {str(error) or type(error).__name__}")
        raise falcon.HTTPBadRequest(description=text) from None
    if len(data) > most:
        raise _too_large(most)
    if length is not None and len(data) < length:
        raise falcon.HTTPBadRequest(description="the body ended before its Content-Length")
    return data


def _too_large(most: int) -> falcon.HTTPError:
    text = f"the body is larger than {format_count(most, 'byte')}, the limit of this service"
    return falcon.HTTPContentTooLarge(description=text)


def _is_of_valence(data: bytes) -> bool:
    try:
        fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return not _VALENCE_FIELDS.isdisjoint(fields)


def replayed(route: verbs.Route, call: calls.Call) -> tuple[calls.CallResult, bool]:
    """Return the recorded answer, else the handler's, and whether it was recorded before.

    Only a success is recorded. Concurrent requests with one key get the answer that is recorded
    first. NameTaken if another request has the key.
    """
    if call.key is None or route.body in KEYED_BODIES:
        return _answer(route, call), False
    user = call.user
    # the key includes the owner that the user sees: an answer may name claims of others
    words = (user.tenant, user.owner or "", route.path, *call.path.values(), call.key)
    record = ANSWER + digest_of("\0".join(words).encode())
    content = digest_of(to_json(call.body) + b"\0" + repr(sorted(call.query.items())).encode())
    records = call.parts.store().records
    if (found := records.get(record)) is not None:
        return _recorded(found[0], content, call.key), True
    answer = _answer(route, call)
    body = msgspec.Raw(encoded(answer.body))
    document = to_json(verbs.RecordedReply(content, answer.status, dict(answer.headers), body))
    try:
        stored = records.put_new(record, document)
    except errors.StoreError as error:  # the change was made: an error would deny it
        LOG.error("the answer for idempotency key %r is not stored: %s", call.key, error)
        return answer, False
    return _recorded(stored, content, call.key), stored != document


def encoded(body: Any) -> bytes:
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


def _answer(route: verbs.Route, call: calls.Call) -> calls.CallResult:
    try:
        result = routes.HANDLERS[route.operation](call)
    except (errors.UnknownName, errors.Undecodable) as error:
        raise visibility.visible_error(error, call.user.owner) from None
    except errors.Unauthenticated as error:  # not the credentials of the user: they were checked
        text = f"another service refuses the login of this service: {error}"
        raise errors.ServiceError(text) from None
    answer = result if isinstance(result, calls.CallResult) else calls.CallResult(result)
    return answer._replace(body=call.completed(answer.body))


def _recorded(document: bytes, content: str, key: str) -> calls.CallResult:
    recorded = msgspec.json.decode(document, type=verbs.RecordedReply)
    if recorded.content != content:
        raise errors.NameTaken(f"idempotency key {key!r} belongs to another request: use a new one")
    return calls.CallResult(bytes(recorded.body), recorded.status, recorded.headers)


def create_application(
    parts: calls.ServiceParts, metrics: Metrics, access: Access
) -> falcon.App[Any, Any]:
    app: falcon.App[Any, Any] = falcon.App(middleware=[Envelope(metrics, parts.rates)])
    app.req_options.strip_url_path_trailing_slash = False  # an empty name must not match the list
    app.add_error_handler(Exception, _defect)
    app.add_error_handler(falcon.HTTPError, _http_error)
    app.add_error_handler(errors.SchedulerError, _scheduler_error_handler(access))
    app.set_error_serializer(_http_error)
    resources: dict[str, dict[str, Any]] = {}
    for route in routes.ROUTES:
        methods = resources.setdefault(route.path, {})
        responder = methods[f"on_{route.method.lower()}"] = _responder(route, parts, access)
        if route.method == "GET":
            methods["on_head"] = responder  # falcon omits the body of an answer to HEAD
    for path, methods in resources.items():
        app.add_route(path, types.SimpleNamespace(**methods))
        if path.startswith("/healthcheck"):
            app.add_route(f"{path}/", types.SimpleNamespace(**methods))
    return app


class LogFields(dict[str, Any]):
    """The fields of one log line; they become JSON text only if a log handler needs text."""

    def __str__(self) -> str:
        return json.dumps(self)


class Envelope:
    """The middleware of all answers: sets request ID and API version, counts and logs."""

    def __init__(self, metrics: Metrics, rates: calls.RateLimiter) -> None:
        self._metrics, self._rates = metrics, rates

    def process_request(self, req: falcon.Request, resp: falcon.Response) -> None:
        given = req.get_header(REQUEST_ID) or ""
        known = given if _REQUEST_ID.fullmatch(given) else f"req-{uuid.uuid4()}"
        req.context.update({"request_id": known, "begun": time.perf_counter(), "code": ""})
        resp.set_header(REQUEST_ID, known)
        try:
            http.ROUTE.set(http.parse_route(req.get_header(http.ROUTE_HEADER)))
            http.DEADLINE.set(http.parse_deadline(req.get_header(http.DEADLINE_HEADER)))
        except ValueError as error:
            raise falcon.HTTPBadRequest(description=str(error)) from None
        resp.append_header("Vary", calls.VERSION_HEADER)
        resp.set_header("Cache-Control", "no-store")
        resp.set_header("X-Content-Type-Options", "nosniff")
        try:
            version = calls.negotiated(req.get_header(calls.VERSION_HEADER))
        except ValueError as error:
            raise falcon.HTTPNotAcceptable(description=str(error)) from None
        resp.set_header(calls.VERSION_HEADER, f"{calls.SERVICE_TYPE} {version}")

    def process_response(
        self, req: falcon.Request, resp: falcon.Response, _resource: object, _succeeded: bool
    ) -> None:
        """Count and log an answer; the log has the path of the request, not its query."""
        seconds = time.perf_counter() - req.context.begun
        route = req.uri_template or "unknown"
        status = falcon.http_status_to_code(resp.status)
        method = req.method if req.method in falcon.HTTP_METHODS else "unknown"
        if status in MALFORMED and "user" not in req.context:
            count_failure(self._rates, _client(req, self._rates))
        self._metrics.count(method, route, status, seconds)
        code = req.context.get("code", "")
        if "change" in req.context and code != errors.RateLimited.code:
            _record_change(req, resp, status)
        line = LogFields(
            request_id=_request_id(req),
            method=method,
            path=_loggable(req.path),
            status=status,
            seconds=round(seconds, 6),
            user=req.context.get("user", "-"),
            tenant=req.context.get("tenant", "-"),
            code=code,
        )
        if LOG.isEnabledFor(logging.INFO):  # LOG.info would search the stack for its caller
            record = LOG.makeRecord(LOG.name, logging.INFO, "", 0, "%s", (line,), None)
            record.fields = line
            LOG.handle(record)


def _responder(
    route: verbs.Route, parts: calls.ServiceParts, access: Access
) -> Callable[..., None]:
    most = parts.limits.body_bytes
    if route.takes_token:
        most = min(most, EVENT_BYTES)

    def respond(req: falcon.Request, resp: falcon.Response, **path: str) -> None:
        req.context["media"] = route.media
        query = dict(req.params)
        if not route.rule and not route.takes_token:
            user = User("-", "reader")
            answer(req, resp, calls.Call(parts, user, path, query, _request_id(req)))
            return
        user = _user_of(req, route, parts, access, path.get("token", ""))
        req.context.update({"user": user.name, "tenant": user.tenant})
        req.context["is_tenant"] = user.owner is not None
        call = calls.Call(parts, user, path, query, _request_id(req), route.rule)
        if route.audited:
            req.context["change"] = route, call
        parts.rates.count(user.tenant, change=route.changes)
        if route.rule:
            access.check(user, route.rule, route.role)
            _check_query(route, call)
        with parts.gate.passing(user.tenant):
            answer(req, resp, call)

    def answer(req: falcon.Request, resp: falcon.Response, call: calls.Call) -> None:
        body: Any = read_body(req, route.body, most) if route.body else None
        if route.force and body.change.force:
            access.check(call.user, route.force, "admin")
        asked_s, most_s = getattr(body, "ttl_s", 0.0), parts.limits.ttl_s
        if asked_s > most_s and asked_s != claim.TTL_S:
            text = f"this service holds a claim for at most {most_s:g} s"
            raise errors.RequestError(f"ttl_s {asked_s:g}: {text}")
        if asked_s > most_s:
            body = replace(body, ttl_s=most_s)
        key = req.get_header(calls.KEY_HEADER) if route.method == "POST" else None
        if key is not None and not _KEY.fullmatch(key):
            raise errors.InputError(calls.KEY_HEADER, "", "no key", "1 to 255 printable characters")
        for where, words in (("the path", call.path), ("the query", call.query)):
            for word in (*words, *words.values()):
                if isinstance(word, str) and "\0" in word:
                    raise errors.InputError(where, "", NUL_FOUND, NUL_EXPECTED)
        call.body, call.key = body, key
        result, again = replayed(route, call)
        if again:
            resp.set_header("Idempotency-Replayed", "true")
        resp.status = result.status
        if result.status != 204:
            resp.content_type = falcon.MEDIA_JSON
        for name, value in result.headers.items():
            resp.set_header(name, value)
        if result.body is not None:
            resp.data = encoded(result.body)

    return respond


def _user_of(
    req: falcon.Request, route: verbs.Route, parts: calls.ServiceParts, access: Access, token: str
) -> User:
    """Return the user of a request; for an event, the pod manager that its token names."""
    address = _client(req, parts.rates)
    parts.rates.check_address(address)
    try:
        if not route.takes_token:
            return access.authenticate(req.env, page=route.media == HTML)
        name = parts.events.podm_of(token) if parts.events is not None else None
        if name is None:
            raise errors.NothingMatches("token of a pod manager")
        return User(name, "reader", project=f"events of {name}")
    except (errors.Unauthenticated, errors.NothingMatches):
        # clients learn from an answer that they must log in
        if route.takes_token or req.auth or req.get_header("X-Auth-Token"):
            parts.rates.count_failure(address)
        raise


def _client(req: falcon.Request, rates: calls.RateLimiter) -> str:
    return rates.address_of(req.remote_addr or "-", req.get_header("X-Forwarded-For") or "")


def count_failure(rates: calls.RateLimiter, address: str) -> None:
    """Count a malformed request; it is answered even if Redis fails."""
    try:
        rates.count_failure(address)
    except errors.ServiceBusy as error:
        LOG.warning("a malformed request is not counted: %s", error)


def _record_change(req: falcon.Request, resp: falcon.Response, status: int) -> None:
    route, call = req.context.change
    name = route.path.removeprefix("/v1/").removesuffix("/changes")  # the changed object
    if "name" in call.path:
        name = name.replace("{name}", call.name())
    elif location := resp.get_header("Location"):
        in_query = f"{calls.NAME_IN_QUERY}?name="
        name = unquote_plus(location.removeprefix("/v1/").replace(in_query, ""))
    elif made := getattr(getattr(call.body, "registration", call.body), "name", None):
        name += f"/{made}"
    done = "done" if status in (route.status, 204) else f"http_{status}"
    outcome = req.context.get("code", "") or ("accepted" if status == 202 else done)
    call.record_change(errors.one_line(name), outcome)


def _check_query(route: verbs.Route, call: calls.Call) -> None:
    """Raise InputError for a parameter that the route does not have, or that is given twice."""
    in_query = calls.NAME_IN_QUERY in call.path.values()
    known = {*route.words, *(("name",) if in_query else ())}
    for name, value in call.query.items():
        if name not in known:
            raise errors.InputError(
                "the query", "", f"unknown parameter {name!r}", hint=errors.suggest(name, known)
            )
        if isinstance(value, list):
            raise errors.InputError("the query", "", f"the parameter {name!r} twice", "it once")


def _loggable(path: str) -> str:
    if EVENTS in path:
        path = path[: path.index(EVENTS) + len(EVENTS)] + "***"
    return redact.redact_text(errors.one_line(path, 200))


def _request_id(req: falcon.Request) -> str:
    return str(req.context.get("request_id", "-"))


def _send_problem(req: falcon.Request, resp: falcon.Response, problem: Problem) -> None:
    req.context["code"] = problem.code
    problem = visibility.visible_problem(problem, is_tenant=getattr(req.context, "is_tenant", True))
    resp.status = problem.status
    if req.context.get("media", "") == HTML:
        resp.set_headers(HTML_HEADERS)
        resp.data = problem_html(problem, req.path.count("/") - 1)
        return
    resp.content_type = MEDIA_TYPE
    resp.data = to_json(problem)


def _scheduler_error_handler(access: Access) -> Callable[..., None]:
    def handle(
        req: falcon.Request, resp: falcon.Response, error: errors.SchedulerError, _path: object
    ) -> None:
        page = req.context.get("media", "") == HTML
        challenge = access.page_challenge if page else access.challenge
        if isinstance(error, errors.Unauthenticated) and challenge is not None:
            resp.set_header("WWW-Authenticate", challenge)
        if isinstance(error, errors.RateLimited):
            resp.set_header("Retry-After", f"{error.retry_after_s:.0f}")
        if error.http_status == 503:
            resp.set_header("Retry-After", "1")
        if error.http_status >= 500:
            LOG.warning("%s: %s", _request_id(req), redact.redact_text(errors.one_line(str(error))))
        _send_problem(req, resp, problem_of(error, _request_id(req)))

    return handle


def _http_error(
    req: falcon.Request, resp: falcon.Response, error: falcon.HTTPError, _path: object = None
) -> None:
    for name, value in dict(error.headers or {}).items():
        resp.set_header(name, value)
    text = error.description or f"{req.method} {_loggable(req.path)}: {error.title}"
    title = error.title or "error"
    problem = http_problem(error.status_code, title, text, _request_id(req))
    _send_problem(req, resp, problem)


def _defect(req: falcon.Request, resp: falcon.Response, error: Exception, _path: object) -> None:
    request_id = _request_id(req)
    LOG.error("%s: internal error", request_id, exc_info=error)
    text = f"internal error: search the log of the service for {request_id}"
    _send_problem(req, resp, problem_of(errors.SchedulerError(text), request_id))
