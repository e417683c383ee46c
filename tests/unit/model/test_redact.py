# SPDX-License-Identifier: Apache-2.0
"""Captures contain no credentials in any form; everything else is unchanged."""

import base64
import copy
import json
import unittest
from pathlib import Path
from urllib.parse import quote

import msgspec
from hypothesis import given, strategies as st

from valence_sched.drivers.redfish.render import documents_of
from valence_sched.model import redact
from valence_sched.model.inventory import FullBlock, FullPodm, Inventory, Node, Pool, to_json

SITE = Path(__file__).parents[3] / "examples" / "site.json"
CANARY = "kAn4ry-Wellensittich"
LOGIN = base64.b64encode(f"admin:{CANARY}".encode()).decode()

FIELDS = (
    "Password", "password", "PASSWORD", "AdminPassword", "Password1", "user_password", "passwd",
    "Passphrase", "UserPwd", "Secret", "SharedSecret", "secret-key", "Token", "X-Auth-Token",
    "AccessToken", "AuthToken", "SessionKey", "APIKey", "api_key", "PrivateKey", "Private Key",
    "EncryptionKey", "AuthNKey", "Key", "Credentials", "CredentialBootstrapping", "Cookie",
    "Authorization", "SNMPCommunity", "CommunityString", "pin", "KerberosKeytab", "LicenseKey",
    "Password@Vendor.Plain", "#Vendor.SetPassword",
)  # fmt: skip
TEXTS = (
    "https://admin:{}@host.example.org/redfish/v1", "HTTPS://{}@host/", "nfs://u:{}@h:2049/x?y#z",
    "see https://a:{}@h/ and http://b:{}@i/", "//admin:{}@host/share", "admin:{}@host",
    "http://h/?user=a&password={}&b=1", "http://h/?token={}", "X-Auth-Token: {}", "password={}",
    "password: {}", "the Password = '{}'", '{{"Password": "{}"}}', "Authorization: Bearer {}",
    "Bearer {}", "pwd={};x", "api-key={}", "apikey: {}",
    "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----{}",
)  # fmt: skip


def found_in(value: object) -> bool:
    text = json.dumps(value, ensure_ascii=False)
    return any(sign in text for sign in (CANARY, LOGIN, quote(CANARY), CANARY.upper()))


class TestRedact(unittest.TestCase):
    maxDiff = None

    def test_what_is_called_a_credential_is_left_out_wherever_it_stands(self) -> None:
        for name in FIELDS:
            for value in (CANARY, [CANARY], {"Value": CANARY}, {"a": [{"b": CANARY}]}):
                shapes = ({name: value}, {"Oem": {"Vendor": {"x": [{name: value, "y": 1}]}}})
                for shape in shapes:
                    with self.subTest(name=name, shape=shape):
                        self.assertFalse(found_in(redact.redact(shape)))

    def test_texts_lose_credentials_and_nothing_else(self) -> None:
        for text in TEXTS:
            for shape in (text.format(CANARY, CANARY), quote(text.format(CANARY, CANARY), safe="")):
                with self.subTest(text=shape):
                    self.assertFalse(found_in(redact.redact({"Oem": {"x": [shape]}})))
        self.assertEqual("see https://h/x and http://i/?a=1 for more",
                         redact.redact_text("see https://a:b@h/x and http://i/?a=1 for more")
        )  # fmt: skip
        self.assertEqual("http://h/?user=a&password=***&b=1",
                         redact.redact_text("http://h/?user=a&password=x&b=1"))  # fmt: skip

    def test_logins_in_base64_and_web_tokens_are_replaced(self) -> None:
        for text in (f"Basic {LOGIN}", f"authorization: basic {LOGIN}"):
            self.assertFalse(found_in(redact.redact_text(text)))
        token = f"eyJhbGciOiJIUzI1NiJ9.{CANARY}.x"
        self.assertEqual("a *** b", redact.redact_text(f"a {token} b"))

    def test_a_pair_of_name_and_value_that_is_a_credential_loses_its_value(self) -> None:
        for name in ("Name", "AttributeName", "Key", "Id", "Header"):
            for value in ("Value", "CurrentValue", "DefaultValue"):
                pair = {name: "AdminPassword", value: CANARY, "Hidden": True}
                found = redact.redact([pair])
                self.assertFalse(found_in(found), (name, value))
                self.assertIs(True, found[0]["Hidden"])
        pair = {"AttributeName": "BootMode", "CurrentValue": "Uefi"}
        self.assertEqual(pair, redact.redact(pair))

    def test_known_secrets_are_replaced_wherever_they_stand(self) -> None:
        json_ = {"Name": f"x{CANARY}y", CANARY: [CANARY], "n": 1}
        self.assertEqual({"Name": "x***y", "***": ["***"], "n": 1}, redact.redact(json_, [CANARY]))
        self.assertEqual({"a": "abc"}, redact.redact({"a": "abc"}, ["", "b"]))

    def test_documents_of_accounts_sessions_and_keys_are_not_recorded(self) -> None:
        root = "/redfish/v1"
        found = {
            f"{root}/{tail}": {"x": CANARY}
            for tail in ("AccountService", "AccountService/Accounts/1", "SessionService",
                         "sessionservice/sessions/1", "SessionService%2fSessions/1",
                         "Managers/1/Accounts/2", "KeyService/NVMeoFSecrets",
                         "Systems/1/Certificates/1")
        }  # fmt: skip
        found |= {f"{root}/odd/{n}": {"@odata.type": kind, "x": CANARY}
                  for n, kind in enumerate(("#Session.v1_3_0.Session", "#ManagerAccount.v1.X",
                                            "#AccountService.v1_0_0.AccountService"))}  # fmt: skip
        found[f"{root}/Systems"] = {
            "Members": [{"@odata.type": "#Session.v1_0_0.Session", "UserName": CANARY}]
        }
        left = redact.redact_documents(found)
        self.assertEqual({f"{root}/Systems": {"Members": [{}]}}, left)

    def test_the_input_stays_as_it_is(self) -> None:
        json_ = {"Password": "x", "a": [{"Token": "y", "b": "http://u:p@h"}]}
        before = copy.deepcopy(json_)
        redact.redact(json_)
        self.assertEqual(before, json_)

    def test_our_example_has_none_and_stays_as_it_is(self) -> None:
        site = msgspec.json.decode(SITE.read_bytes(), type=Inventory)
        for podm in site.podms:
            self.assertEqual(podm, redact.redact_podm(podm))
            self.assertEqual(documents := documents_of(podm), redact.redact_documents(documents))

    def test_our_inventory_holds_none_either(self) -> None:
        address = f"https://admin:{CANARY}@h/redfish/v1"
        podm = FullPodm(
            id="p", url=address, name=f"password={CANARY}", pools=(Pool(id="z", name=address),),
            facts={"password": CANARY, "bmc-token": (CANARY,), "bmc": address, "price": 1.0,
                   "urls": (address, "x")},
            capabilities={"secret": (CANARY,), "os": ("linux",)},
            blocks=(FullBlock(uri="/b", name=address, places={"switch": address}),),
            nodes=(Node(uri="/n", owner=f"token: {CANARY}"),),
        )  # fmt: skip
        found = redact.redact_podm(podm)
        self.assertNotIn(CANARY.encode(), to_json(found))
        self.assertEqual(({"price": 1.0, "bmc": "https://h/redfish/v1",
                           "urls": ("https://h/redfish/v1", "x")}, {"os": ("linux",)}),
                         (found.facts, found.capabilities))  # fmt: skip
        self.assertEqual("https://h/redfish/v1", found.url)

    def test_links_to_what_is_left_out_go_too(self) -> None:
        root, private = "/redfish/v1", "/redfish/v1/Oem/Private"
        systems = {"@odata.id": f"{root}/Systems"}
        found = redact.redact_documents({
            root: {
                "@odata.id": root,
                "AccountService": {"@odata.id": f"{root}/AccountService/"},
                "Links": {"Sessions": {"@odata.id": f"{root}/SessionService/Sessions"}},
                "Oem": [systems, {"@odata.id": private}],
                "Systems": systems,
            },
            private: {"@odata.id": private, "@odata.type": "#Session.v1_0_0.Session"},
        })  # fmt: skip
        kept = {"@odata.id": root, "Links": {}, "Oem": [systems], "Systems": systems}
        self.assertEqual({root: kept}, found)

    @given(st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
            st.text(max_size=8) | st.sampled_from(FIELDS), inner, max_size=3),
        max_leaves=12,
    ))  # fmt: skip
    def test_redacting_twice_is_redacting_once(self, json_) -> None:
        once = redact.redact(json_)
        self.assertEqual(once, redact.redact(once))
