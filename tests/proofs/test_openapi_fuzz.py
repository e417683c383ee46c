# SPDX-License-Identifier: Apache-2.0
"""The service matches its API document for all bodies, roles and sequences.

``VALENCE_SCHED_SOAK`` sends four times the requests and runs three times the sequences.
"""

import os
from collections import Counter
from types import MappingProxyType

import hypothesis
import schemathesis
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.service.application import EXAMPLE, ApplicationCase, testing_login
from valence_sched.model.registration import Registration
from valence_sched.service.settings import Limits
from valence_sched.service.users import ROLES
from valence_sched.store.store import Store
from valence_sched.testing.served import served

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
SOAK = os.environ.get("VALENCE_SCHED_SOAK")
EXAMPLES = 8 if SOAK else 2  # requests of each operation, valid and invalid
SEQUENCES, STEPS = 24 if SOAK else 8, 15
LIMITS = Limits(nodes=20, alternates=5, requests=3)
SLOW = ("POST /v1/plans/refresh", "POST /v1/previews")  # bodies that are whole decisions
#: Their bodies have a request, as those of ``select_destinations`` and ``claims``, and each takes
#: seconds to draw: without a soak test only these two get more than the simplest one.
LIKE_OTHERS = tuple(f"POST /v1/{name}" for name in (
    "candidates", "capacity", "fits", "mix_capacity", "nodes", "requests", "select_all",
))  # fmt: skip


class FuzzCase(ApplicationCase):
    """A test case that checks the answers to bodies and queries of any form."""

    settings = MappingProxyType({"inventories": (EXAMPLE,), "limits": LIMITS})

    def setUp(self):
        super().setUp()
        application = self.process.application
        self.schema = schemathesis.openapi.from_wsgi("/v1/openapi.json", application)

    def tearDown(self):
        self.process.operations.wait(60)


class TestFuzz(FuzzCase):
    """Bodies and queries of any form get documented answers, and never a 5xx."""

    def test_no_body_and_no_query_is_too_much(self):
        for operation in (result.ok() for result in self.schema.get_all_operations()):
            modes = [GenerationMode.POSITIVE]
            if operation.body or operation.query or operation.path_parameters:
                modes.append(GenerationMode.NEGATIVE)  # otherwise any input is valid
            for mode in modes:
                with self.subTest(operation.label, mode=mode.value):
                    few = SLOW if SOAK else (*SLOW, *LIKE_OTHERS)
                    fuzz(operation, mode, 1 if operation.label in few else EXAMPLES)


class TestRoles(FuzzCase):
    """Users of each role send documented requests, and never get a 5xx."""

    def new_process(self, **words):
        users = self.users_file(*(f"{role}:{role}" for role in ROLES))
        return super().new_process(auth="basic", users_file=users, **words)

    def test_no_role_is_too_much(self):
        for operation in (result.ok() for result in self.schema.get_all_operations()):
            logins = [{"Authorization": testing_login(role, role)} for role in ROLES]
            with self.subTest(operation.label):
                fuzz(operation, GenerationMode.POSITIVE, 1, logins)


class TestSequences(FuzzCase):
    """Requests use names of earlier answers: claims, operations, pod managers."""

    def setUp(self):
        self.podms = self.enterContext(served(EXAMPLE))
        super().setUp()
        self.read_podms()  # before, an empty inventory causes a 503

    def new_process(self, **words):
        with Store(self.state) as store:
            for name, podm in self.podms.items():
                store.register(Registration(name=name, url=podm.url))
        return super().new_process(**{"inventories": (), **words})

    def test_no_sequence_of_calls_is_too_much(self):
        """Every route, also routes that write, on live pod managers."""
        asked = Counter()
        machine = self.schema.as_state_machine()

        class Sequence(machine):
            def validate_response(self, response, case, additional_checks=(), **_words):
                asked[case.operation.label] += 1
                case.validate_response(response, checks=CHECKS)

        Sequence.run(settings=fuzz_settings(SEQUENCES, stateful_step_count=STEPS))
        self.assertGreater(sum(asked.values()), SEQUENCES)
        self.assertGreater(len(asked), 15, asked)


def fuzz(operation, mode, examples, logins=(None,)):
    """Check the answers of an operation to some requests, each with the headers of each user."""

    @fuzz_settings(examples)
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def check(case):
        for headers in logins:
            case.call_and_validate(headers=headers, checks=CHECKS)

    check()


def fuzz_settings(examples, **words):
    """Return settings that draw the same examples each time."""
    return hypothesis.settings(
        max_examples=examples,
        database=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
        **words,
    )
