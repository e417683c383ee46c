# SPDX-License-Identifier: Apache-2.0
"""Fairness: a tenant that asks without end does not keep the others from their turns."""

import threading
import unittest

from tests.service.application import SMALL, ApplicationCase
from tests.service.test_reader import wait_for
from valence_sched.errors import RateLimited
from valence_sched.service.fairness import FairLock, TenantGate
from valence_sched.service.settings import Limits

SELECT = "/v1/select_destinations"


class TestFairLock(unittest.TestCase):
    def setUp(self):
        self.lock = FairLock()
        self.order: list[str] = []
        self.threads: list[threading.Thread] = []

    def wait_for(self, tenant):
        """Start a thread that waits for the lock, and return once it is in the queue."""

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

        threads = [threading.Thread(target=work, args=(f"t{one % 3}",)) for one in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
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
        users = self.users_file("mo", "eve")
        limits = Limits(tenant_requests=2, queue_s=30)
        self.client = self.new_client(auth="basic", users_file=users, limits=limits)

    def test_a_tenant_that_asks_without_end_leaves_the_others_their_turn(self):
        results = []

        def ask(user):
            results.append((user, self.call("POST", SELECT, SMALL, user=user)))

        with self.process.parts.schedulers.reading("mo"):  # whose decision takes long
            threads = [threading.Thread(target=ask, args=("mo",)) for _ in range(6)]
            for thread in threads:
                thread.start()
            wait_for(lambda: len(results) >= 4)
            refused = [result for _, result in results]
            threads.append(threading.Thread(target=ask, args=("eve",)))
            threads[-1].start()
        for thread in threads:
            thread.join(60)
        for result in refused:
            self.check_problem(result, 429, "rate_limited", "2 requests of 'mo'")
            self.assertEqual("1", result.headers["retry-after"])
        answered = [user for user, result in results[4:] if result.status_code == 200]
        self.assertEqual(["eve", "mo", "mo"], sorted(answered))
