# SPDX-License-Identifier: Apache-2.0
"""Fairness: tenants take turns within their rate limits; all other requests are answered."""

import os
import socket
import threading
import unittest
import uuid
from concurrent.futures import ThreadPoolExecutor

from tests.service.application import SMALL, ApplicationCase
from tests.service.serving import wait_for
from valence_sched.errors import InputError, RateLimited, ServiceBusy, UsageError
from valence_sched.service.call import FairLock, RateLimiter, TenantGate
from valence_sched.service.settings import Limits, RateSettings, ServiceSettings, check_settings

SELECT = "/v1/select_destinations"


class TestFairLock(unittest.TestCase):
    def setUp(self):
        self.lock = FairLock()
        self.order: list[str] = []
        self.threads: list[threading.Thread] = []

    def wait_for(self, tenant):
        """Start a thread that waits for the lock; return after it is in the queue."""

        def take():
            self.assertTrue(self.lock.acquire(tenant, 30))
            self.order.append(tenant)
            self.lock.release()

        before = self.waiting()
        thread = threading.Thread(target=take)
        thread.start()
        self.threads.append(thread)
        wait_for(lambda: self.waiting() > before)

    def waiting(self):
        return sum(map(len, self.lock._waiting.values()))

    def test_tenants_take_turns_however_many_of_one_wait(self):
        self.assertTrue(self.lock.acquire("red", 0))
        for tenant in ("red", "red", "red", "red", "blue", "green", "blue"):
            self.wait_for(tenant)
        self.lock.release()
        for thread in self.threads:
            thread.join(30)
        expected = ["red", "blue", "green", "red", "blue", "red", "red"]
        self.assertEqual(expected, self.order)
        self.assertTrue(self.lock.acquire("red", 0))

    def test_a_turn_that_does_not_come_in_time_is_given_up(self):
        self.assertTrue(self.lock.acquire("red", 0))
        self.assertFalse(self.lock.acquire("blue", 0.01))
        self.assertEqual(0, self.waiting())
        self.lock.release()
        self.assertTrue(self.lock.acquire("blue", 0))

    def test_one_thread_at_a_time_has_it(self):
        inside, most = [], []

        def work(tenant):
            for _ in range(200):
                self.assertTrue(self.lock.acquire(tenant, 30))
                inside.append(tenant)
                most.append(len(inside))
                inside.pop()
                self.lock.release()

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(work, (f"t{one % 3}" for one in range(6))))
        self.assertEqual((1200, 1), (len(most), max(most)))


class TestTenantGate(unittest.TestCase):
    def test_a_tenant_has_so_many_requests_and_another_is_not_counted(self):
        gate = TenantGate(1)
        with gate.passing("red"):
            with self.assertRaisesRegex(RateLimited, "1 request of 'red'"), gate.passing("red"):
                self.fail("let in")
            with gate.passing("blue"):
                pass
        with gate.passing("red"):
            pass

    def test_an_error_lets_the_next_one_in(self):
        gate = TenantGate(1)
        for _ in range(2):
            with self.assertRaises(KeyError), gate.passing("red"):
                raise KeyError


class TestService(ApplicationCase):
    def setUp(self):
        super().setUp()
        self.log_in("mo", "eve", limits=Limits(tenant_requests=2, queue_s=30))

    def test_a_tenant_that_asks_without_end_leaves_the_others_their_turn(self):
        results = []

        def ask(user):
            results.append((user, self.call("POST", SELECT, SMALL, user=user)))

        pool = ThreadPoolExecutor(7)
        with self.process.parts.schedulers.reading("mo"):  # with a long decision
            for _ in range(6):
                pool.submit(ask, "mo")
            wait_for(lambda: len(results) >= 4)
            refused = [result for _, result in results]
            pool.submit(ask, "eve")
        pool.shutdown()
        for result in refused:
            self.check_problem(result, 429, "rate_limited", "2 requests of 'mo'")
            self.assertEqual("1", result.headers["retry-after"])
        answered = [user for user, result in results[4:] if result.status_code == 200]
        self.assertEqual(["eve", "mo", "mo"], sorted(answered))


REDIS = os.environ.get("VALENCE_SCHED_TEST_REDIS", "redis://127.0.0.1:6379/0")


def require_redis() -> None:
    """Skip the test if no Redis listens; fail if databases are required."""
    host, _, port = REDIS.removeprefix("redis://").partition("/")[0].partition(":")
    try:
        socket.create_connection((host, int(port or 6379)), timeout=5).close()
    except OSError:
        if os.environ.get("VALENCE_SCHED_REQUIRE_ENGINES"):
            raise
        raise unittest.SkipTest(
            f"no Redis at {REDIS}: VALENCE_SCHED_TEST_REDIS names one"
        ) from None


class TestRateLimiter(unittest.TestCase):
    def test_without_settings_nothing_is_counted(self):
        limiter = RateLimiter(RateSettings(failures=None))
        for _ in range(1000):
            limiter.count("red", change=True)
            limiter.count_failure("a")
            limiter.check_address("a")

    def test_each_tenant_has_a_rate_of_its_own(self):
        limiter = RateLimiter(RateSettings(requests="3/hour"))
        for _ in range(3):
            limiter.count("red", change=False)
        with self.assertRaisesRegex(RateLimited, "requests of 'red' exceed 3 per 1 hour") as e:
            limiter.count("red", change=False)
        self.assertTrue(3000 < e.exception.retry_after_s <= 3601, e.exception.retry_after_s)
        limiter.count("blue", change=False)

    def test_changes_have_a_rate_beside_that_of_all(self):
        limiter = RateLimiter(RateSettings(changes="1/hour;2/day"))
        limiter.count("red", change=True)
        limiter.count("red", change=False)
        with self.assertRaisesRegex(RateLimited, "changes of 'red'"):
            limiter.count("red", change=True)

    def test_logins_that_fail_are_counted_by_address(self):
        limiter = RateLimiter(RateSettings(failures="2/hour"))
        for _ in range(2):
            limiter.check_address("10.0.0.1")
            limiter.count_failure("10.0.0.1")
        with self.assertRaisesRegex(RateLimited, "failures of '10.0.0.1'"):
            limiter.check_address("10.0.0.1")
        limiter.check_address("10.0.0.2")

    def test_what_is_no_rate_is_named(self):
        for text in ("many", "10", "10/fortnight", "-1/second"):
            with self.subTest(text), self.assertRaisesRegex(InputError, "rate_limits: requests"):
                RateLimiter(RateSettings(requests=text))

    def test_processes_count_together_in_redis(self):
        require_redis()
        settings = RateSettings(requests="3/hour", redis_url=REDIS)
        limiters = [RateLimiter(settings) for _ in range(2)]
        tenant = uuid.uuid4().hex
        for number in range(3):
            limiters[number % 2].count(tenant, change=False)
        for limiter in limiters:
            with self.assertRaises(RateLimited):
                limiter.count(tenant, change=False)

    def test_where_redis_does_not_answer_nothing_is_answered(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            url = f"redis://127.0.0.1:{closed.getsockname()[1]}/0"
            limiter = RateLimiter(RateSettings(requests="3/hour", redis_url=url))
            with self.assertRaisesRegex(ServiceBusy, "Redis cannot count requests"):
                limiter.count("red", change=False)

    def test_a_password_stands_in_no_address(self):
        for url in ("redis://u:secret@127.0.0.1/0", "http://127.0.0.1", "127.0.0.1"):
            with self.subTest(url), self.assertRaisesRegex(UsageError, "redis_url") as caught:
                settings = RateSettings(requests="1/hour", redis_url=url)
                check_settings(ServiceSettings(rate_limits=settings), "f")
            self.assertNotIn("secret", str(caught.exception))


class TestAddresses(unittest.TestCase):
    """The address whose failures are counted, behind proxies."""

    def test_a_proxy_says_who_its_client_is_and_others_do_not(self):
        networks = ServiceSettings(proxies=("10.0.0.0/8", "::1")).proxy_networks
        limiter = RateLimiter(RateSettings(), None, networks)
        for peer, forwarded, expected in (
            ("192.0.2.1", "198.51.100.7", "192.0.2.1"),
            ("10.0.0.1", "", "10.0.0.1"),
            ("10.0.0.1", "198.51.100.7", "198.51.100.7"),
            ("10.0.0.1", "1.1.1.1, 198.51.100.7, 10.9.9.9", "198.51.100.7"),
            ("::1", "2001:db8::1", "2001:db8::1"),
            ("10.0.0.1", "no address", "10.0.0.1"),
            ("10.0.0.1", "1.1.1.1, " + "x" * 100_000, "10.0.0.1"),
            ("-", "198.51.100.7", "-"),
        ):
            with self.subTest(peer=peer, forwarded=forwarded[:40]):
                self.assertEqual(expected, limiter.address_of(peer, forwarded))

    def test_the_addresses_of_one_client_count_together(self):
        limiter = RateLimiter(RateSettings(failures="3/hour"))
        for one, same, other in (
            ("2001:db8::1", "2001:db8::ffff:1:2", "2001:db8:0:1::1"),
            ("fe80::1%eth0", "fe80::2%eth0", "::1"),
            ("::ffff:192.0.2.1", "192.0.2.1", "::ffff:192.0.2.2"),
            ("-", "-", "here"),
        ):
            with self.subTest(one):
                for address in (one, same, one):
                    limiter.check_address(address)
                    limiter.count_failure(address)
                for address in (one, same):
                    self.assertRaises(RateLimited, limiter.check_address, address)
                limiter.check_address(other)

    def test_what_is_no_network_is_named(self):
        with self.assertRaisesRegex(UsageError, "f: proxies: 'front' does not appear to be"):
            check_settings(ServiceSettings(proxies=("front",)), "f")


class TestLimitedService(ApplicationCase):
    def client_of(self, **rates):
        users = self.users_file("mo", "eve", "rea:reader")
        return self.new_client(auth="basic", users_file=users, rate_limits=RateSettings(**rates))

    def test_who_asks_too_often_waits_and_nobody_else(self):
        self.client = self.client_of(requests="3/hour")
        for _ in range(3):
            self.assertEqual(200, self.call("GET", "/v1/policies", user="mo").status_code)
        result = self.call("POST", SELECT, SMALL, user="mo")
        self.check_problem(result, 429, "rate_limited", "requests of 'mo'")
        self.assertGreater(int(result.headers["retry-after"]), 3000)
        self.assertEqual(200, self.call("GET", "/v1/policies", user="eve").status_code)
        self.assertEqual(200, self.call("GET", "/healthcheck").status_code)

    def test_what_only_decides_is_no_change(self):
        self.client = self.client_of(changes="1/hour")
        for _ in range(3):
            self.assertEqual(200, self.call("POST", SELECT, SMALL, user="mo").status_code)
        self.call("DELETE", "/v1/claims/x", user="mo")
        result = self.call("DELETE", "/v1/claims/x", user="mo")
        self.check_problem(result, 429, "rate_limited", "changes of 'mo'")

    def test_passwords_cannot_be_tried_without_end(self):
        self.client = self.client_of(failures="2/hour")
        for _ in range(2):
            self.assertEqual(401, self.call("GET", "/v1/policies", user="mo:x").status_code)
        result = self.call("GET", "/v1/policies", user="mo:x")
        self.check_problem(result, 429, "rate_limited", "failures of '127.0.0.1'")

    def test_a_request_without_a_login_is_no_failed_login(self):
        self.client = self.client_of(failures="2/hour")
        for _ in range(3):
            self.assertEqual(401, self.call("GET", "/v1/policies").status_code)
        self.assertEqual(200, self.call("GET", "/v1/policies", user="mo").status_code)

    def test_by_default_passwords_are_tried_a_few_times_a_minute_by_each_address(self):
        self.log_in("mo", proxies=("127.0.0.1",))
        for number in range(21):
            headers = {"X-Forwarded-For": "192.0.2.1"}
            result = self.call("GET", "/v1/policies", user="mo:x", headers=headers)
            self.assertEqual(429 if number == 20 else 401, result.status_code)
        headers = {"X-Forwarded-For": "192.0.2.2"}
        result = self.call("GET", "/v1/policies", user="mo", headers=headers)
        self.assertEqual(200, result.status_code)

    def test_malformed_requests_count_as_failures(self):
        self.client = self.client_of(failures="2/hour")
        for name in ("X-Podm-Scheduler-Route", "OpenStack-API-Version"):
            value = {"OpenStack-API-Version": "podm-scheduler x"}.get(name, "," * 8000)
            result = self.call("GET", "/v1/policies", user="mo", headers={name: value})
            self.assertIn(result.status_code, (400, 406))
        result = self.call("GET", "/v1/policies", user="mo")
        self.check_problem(result, 429, "rate_limited", "failures of '127.0.0.1'")

    def test_a_claim_is_held_no_longer_than_the_operator_allows(self):
        self.client = self.new_client(limits=Limits(ttl_s=60))
        body = {**SMALL, "ttl_s": 61}
        for method, path, words in (("POST", "/v1/claims", body), ("POST", "/v1/nodes", body),
                                    ("POST", "/v1/claims/x/renew", {"ttl_s": 61})):  # fmt: skip
            result = self.call(method, path, words)
            self.check_problem(result, 400, "request_invalid", "at most 60 s")
        result = self.call("POST", "/v1/claims/x/renew", {})
        self.check_problem(result, 404, "name_unknown")
