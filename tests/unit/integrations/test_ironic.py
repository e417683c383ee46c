# SPDX-License-Identifier: Apache-2.0
"""Answers of Ironic: anything but a complete answer is an error."""

import base64
import os
import tempfile
import threading
import unittest
from pathlib import Path

from keystoneauth1 import exceptions
from keystoneauth1.access import create
from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session

from tests.baremetal import HIDDEN, FakeIronic, node
from tests.unit.certificates import ELSEWHERE, LOOPBACK, server_context
from valence_sched.app import App
from valence_sched.errors import BaremetalUnavailable, SchedulerError
from valence_sched.integrations.ironic import ironic_at, ironics_of
from valence_sched.model.baremetal import WITHOUT, CloudLogin

NODES = [node(f"n{number}") for number in range(5)]


class IronicCase(unittest.TestCase):
    """A test case with its own Ironic."""

    def ironic(self, *nodes, **words):
        fake = FakeIronic(*nodes, **words)
        self.addCleanup(fake.close)
        return fake

    def refused(self, call, told):
        with self.assertRaisesRegex(BaremetalUnavailable, told) as caught:
            call()
        return str(caught.exception)


class TestAnswers(IronicCase):
    """The nodes of one Ironic."""

    def test_every_node_of_every_page_is_listed_children_too(self):
        fake = self.ironic(*NODES, node("child", parent_node="n1"))
        for page in (1, 2, 5, 6, 1000):
            fake.page = page
            found = ironic_at(fake.url).nodes()
            names = [*(f"n{number}" for number in range(5)), "child"]
            self.assertEqual(names, [one.name for one in found])
        versions = {headers.get("X-OpenStack-Ironic-API-Version") for headers in fake.headers}
        self.assertEqual({None, "1.83"}, versions)

    def test_forms_of_its_url_are_one(self):
        fake = self.ironic(*NODES)
        for path in ("", "/", "/v1", "/v1/", "/baremetal", "/baremetal/v1/"):
            self.assertEqual(5, len(ironic_at(fake.url + path).nodes()))

    def test_an_older_one_is_asked_as_it_speaks(self):
        fake = self.ironic(*NODES)
        fake.latest = "1.65"
        self.assertEqual(5, len(ironic_at(fake.url).nodes()))
        self.assertNotIn("include_children", "".join(fake.asked))
        fake.latest = "1.51"
        self.refused(ironic_at(fake.url).nodes, "API version '1.51', expected 1.52 or later")

    def test_a_node_is_shown_with_all_that_uses_it(self):
        one = node("n", provision_state="active", allocation_uuid="a", instance_info={"x": {}})
        ironic = ironic_at(self.ironic(one).url)
        self.assertEqual(("provision state active", "allocation a"), ironic.node(one["uuid"]).uses)
        self.assertIsNone(ironic.node("gone"))

    def test_owners_of_ports_are_found(self):
        fake = self.ironic(*NODES)
        fake.ports["00:5c:52:31:3a:9c"] = NODES[3]["uuid"]
        macs = {"00:5c:52:31:3a:9c", "00:5c:52:31:3a:9d"}
        self.assertEqual({NODES[3]["uuid"]}, ironic_at(fake.url).owners(macs))

    def test_a_login_of_http_basic_is_sent(self):
        fake = self.ironic()
        ironic_at(fake.url, "ana", "secret").nodes()
        login = base64.b64encode(b"ana:secret").decode()
        self.assertEqual({f"Basic {login}"}, {one.get("Authorization") for one in fake.headers})


class TestBadAnswers(IronicCase):
    """Answers that do not show whether hardware is in use."""

    def test_statuses_and_documents_that_are_no_answer(self):
        fake = self.ironic(*NODES)
        hidden = {"nodes": [{"uuid": "u", "name": "n", "driver_info": {"content": HIDDEN}}]}
        locked = {"nodes": [{"uuid": "u", "driver_info": {}, "reservation": HIDDEN}]}
        page = {"nodes": [{"uuid": "u", "driver_info": {}}], "next": "http://x"}
        for answer, told in (
            ((401, {}), "HTTP 401: the login is rejected"),
            ((403, {}), "HTTP 403: the user"),
            ((404, {}), "HTTP 404"),
            ((500, {"error_message": "geheim"}), "HTTP 500"),
            ((503, b"busy with geheim"), "HTTP 503"),
            ((302, {}), "HTTP 302"),
            ((200, b"<html>geheim</html>"), "no document of Ironic"),
            ((200, b'{"nodes": [{"uuid": "u"'), "no document of Ironic"),
            ((200, b"\xff"), "no document of Ironic"),
            ((200, []), "no document of Ironic"),
            ((200, {}), "no document of Ironic"),
            ((200, {"nodes": {}}), "no document of Ironic"),
            ((200, {"nodes": [{"name": "n"}]}), "no document of Ironic"),
            ((200, {"nodes": [{"uuid": "u", "driver_info": "x"}]}), "no document of Ironic"),
            ((200, hidden), "node u without driver_info or lock"),
            ((200, locked), "node u without driver_info or lock"),
            ((200, page), "an empty page of nodes that links another page"),
        ):
            with self.subTest(answer):
                fake.wrong = lambda target, it=answer: it if "/nodes?f" in target else None
                text = self.refused(ironic_at(fake.url).nodes, told)
                self.assertIn(f"({WITHOUT})", text)
                self.assertNotIn("geheim", text)

    def test_what_is_no_ironic_is_refused(self):
        fake = self.ironic()
        for answer in ((200, {"name": "pods"}), (200, {"version": {"version": "v2"}}), (404, {})):
            fake.wrong = lambda _target, it=answer: it
            self.refused(ironic_at(fake.url).nodes, "does not report its nodes")

    def test_a_user_who_sees_the_nodes_of_one_project_is_told_from_one_who_sees_all(self):
        fake = self.ironic(*NODES)
        fake.sees_all = False
        self.refused(ironic_at(fake.url).nodes, "may not list the nodes of all projects")

    def test_one_that_does_not_listen_and_one_that_is_slow(self):
        self.refused(ironic_at("http://127.0.0.1:9").nodes, "no answer .ConnectFailure")
        fake = self.ironic()
        ended = threading.Event()
        self.addCleanup(ended.set)
        fake.wrong = lambda _target: (200, {}) if ended.wait(10) else None
        self.refused(ironic_at(fake.url, timeout_s=0.1).nodes, "no answer .ConnectTimeout")

    def test_a_certificate_that_is_not_trusted_or_is_of_another_host(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name, trusts, told in (
            (LOOPBACK, False, "a certificate that is not trusted"),
            (ELSEWHERE, True, "a certificate that is not trusted"),
            (LOOPBACK, True, None),
        ):
            with self.subTest(name, trusts=trusts):
                context, trusted = server_context(folder, name)
                fake = self.ironic(*NODES, context=context)
                ironic = ironic_at(fake.url, verify=trusted if trusts else True)
                if told is None:
                    self.assertEqual(5, len(ironic.nodes()))
                else:
                    self.refused(ironic.nodes, told)


class Login:
    """A login to a cloud with a catalogue, or one that fails."""

    def __init__(self, *endpoints, scoped=True, error=None):
        self._endpoints, self._scoped, self._error = endpoints, scoped, error
        self.invalidated = False

    def get_access(self, _session):
        if self._error:
            raise self._error
        catalog = [{"type": type_, "endpoints": [
            {"interface": interface, "region": region, "region_id": region, "url": url, "id": url}
        ]} for type_, interface, region, url in self._endpoints]  # fmt: skip
        token = {"methods": [], "catalog": catalog} if self._scoped else {"methods": []}
        return create(body={"token": token}, auth_token="t")

    def invalidate(self):
        self.invalidated = True
        return True

    def get_headers(self, _session):
        return {"X-Auth-Token": "t"}

    def get_connection_params(self, _session):
        return {}


class TestCatalogue(IronicCase):
    """The Ironic of a cloud."""

    def urls(self, login, **words):
        found = ironics_of(CloudLogin(Session(auth=login), **words), 5.0)
        return [one.url for one in found]

    def test_each_endpoint_of_the_interface_and_the_region_is_asked(self):
        login = Login(
            ("baremetal", "public", "R", "http://r"), ("baremetal", "public", "S", "http://s/v1/"),
            ("baremetal", "internal", "R", "http://r-internal"), ("compute", "public", "R", "c"),
        )  # fmt: skip
        self.assertEqual(["http://r", "http://s"], self.urls(login))
        self.assertEqual(["http://s"], self.urls(login, region="S"))
        self.assertEqual(["http://r-internal"], self.urls(login, interface="internal"))
        self.assertEqual(["http://mine"], self.urls(login, endpoint="http://mine/"))

    def test_a_catalogue_without_ironic_has_none(self):
        self.assertEqual([], self.urls(Login(("compute", "public", "R", "c"))))
        elsewhere = Login(("baremetal", "public", "S", "http://s"), ("compute", "admin", "R", "c"))
        self.assertEqual([], self.urls(elsewhere, region="R"))

    def test_what_is_no_catalogue_is_an_error(self):
        other = Login(("baremetal", "admin", "R", "http://r"))
        self.refused(lambda: self.urls(other), "has Ironic, but not for interface public")
        self.refused(lambda: self.urls(other, region="r"), "the catalogue has no region 'r'")
        self.refused(lambda: self.urls(Login(scoped=False)), "the token has no scope")
        failures = exceptions.Unauthorized("geheim"), exceptions.ConnectFailure("geheim")
        malformed = KeyError("geheim"), TypeError("geheim"), RecursionError("geheim")
        for error in (*failures, *malformed):
            login = Login(error=error)
            told = self.refused(lambda it=login: self.urls(it), "no token")
            self.assertNotIn("geheim", told)
            self.assertTrue(login.invalidated, "its token may have no readable end")

    def test_the_one_endpoint_of_a_login_without_a_catalogue_tells_itself_what_it_is(self):
        fake = self.ironic()
        self.assertEqual([fake.url], self.urls(NoAuth(endpoint=fake.url)))
        self.assertEqual([], self.urls(NoAuth()))
        fake.is_ironic = False
        self.assertEqual([], self.urls(NoAuth(endpoint=fake.url)))
        self.refused(lambda: self.urls(NoAuth(endpoint="http://127.0.0.1:9")), "no answer")


class TestSettings(IronicCase):
    """The Ironic in the user's own file, and in the environment."""

    def found(self, text=None, **environ):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "valence-sched").mkdir()
        if text is not None:
            (folder / "valence-sched" / "ironic.yaml").write_text(text)
        return App({"XDG_CONFIG_HOME": str(folder), **environ}).config.baremetals()

    def test_file_and_environment_name_it(self):
        fake = self.ironic(*NODES)
        login = "username: ana, password: {env: SECRET}"
        for text, environ in (
            (f"url: {fake.url}/v1", {}),
            (f"{{url: {fake.url!r}, {login}, timeout_s: 5}}", {"SECRET": "s"}),
            (None, {"VALENCE_SCHED_IRONIC_URL": fake.url}),
            ("url: http://127.0.0.1:9", {"VALENCE_SCHED_IRONIC_URL": fake.url}),
        ):
            (one,) = self.found(text, **environ)
            self.assertEqual(5, len(one.nodes()))
        self.assertEqual([], list(self.found()))
        self.assertEqual([], list(self.found("timeout_s: 5")))

    def test_the_usual_authorities_are_trusted_without_others(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        context, trusted = server_context(folder, LOOPBACK)
        fake = self.ironic(*NODES, context=context)
        (one,) = self.found(f"url: {fake.url}", SSL_CERT_FILE=trusted)
        self.assertEqual(5, len(one.nodes()))
        (one,) = self.found(f"{{url: {fake.url!r}, cafile: {trusted}}}", OS_CACERT=os.devnull)
        self.assertEqual(5, len(one.nodes()))

    def test_what_is_wrong_is_named_without_a_password(self):
        url = "url: http://host"
        for text, told in (
            ("url: ftp://host", "ironic.yaml: .*url: found .*, expected http"),
            ("url: http://ana:geheim@host", "ironic.yaml: .*url: found .*, expected http"),
            ("url: 'http://[::1'", "ironic.yaml: .*url: found .*, expected http"),
            ("url: http://a b", "ironic.yaml: .*url: found .*, expected http"),
            ("url: http://host/a b", "ironic.yaml: .*url: found .*, expected http"),
            ("username: ana", "an incomplete login"),
            (f"{{{url}, username: ana}}", "an incomplete login"),
            ("{username: ana, password: {env: A}}", "a login without a url"),
            (f"{{{url}, username: ana, password: {{stored: true}}}}", "exactly one of env and f"),
            (f"{{{url}, username: ana, password: {{env: NOTHING}}}}", "ironic: password"),
            ("uri: http://host", "ironic.yaml: .*uri"),
        ):
            with self.subTest(text), self.assertRaisesRegex(SchedulerError, told) as caught:
                self.found(text)
            self.assertNotIn("geheim", str(caught.exception))
        with self.assertRaisesRegex(SchedulerError, "^VALENCE_SCHED_IRONIC_URL: "):
            self.found(VALENCE_SCHED_IRONIC_URL="host:6385")
