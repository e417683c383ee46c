# SPDX-License-Identifier: Apache-2.0
"""Every installed filter and weigher meets the contract, and violations are detected."""

import importlib
import unittest

import numpy as np

from valence_sched import testing
from valence_sched.core import plugins
from valence_sched.view.terms import Term, per_pool, terms

FILTERS = plugins.load(plugins.FILTERS)
WEIGHERS = plugins.load(plugins.WEIGHERS)


class TestInstalled(unittest.TestCase):
    """Our plug-ins and third-party ones, by entry point."""

    def test_filters_are_installed_and_each_keeps_the_contract(self):
        self.assertGreaterEqual(len(FILTERS.by_name), 10)
        for name, function in FILTERS.by_name.items():
            with self.subTest(name):
                testing.check_filter(function)

    def test_weighers_are_installed_and_each_keeps_the_contract(self):
        self.assertGreaterEqual(len(WEIGHERS.by_name), 4)
        for name, function in WEIGHERS.by_name.items():
            with self.subTest(name):
                testing.check_weigher(function)

    def test_options_keep_the_contract_too(self):
        testing.check_filter(FILTERS.get("capacity"), headroom=0.25)
        testing.check_filter(FILTERS.get("alive"), unknown=True)
        for name in ("room", "pack", "balance"):
            with self.subTest(name):
                testing.check_weigher(WEIGHERS.get(name), by="pool")

    def test_none_is_broken(self):
        for group in (FILTERS, WEIGHERS, plugins.load(plugins.SCHEDULERS)):
            self.assertEqual({}, dict(group.load_errors))

    def test_our_entry_points_functions_and_files_have_one_name(self):
        for group, room in ((FILTERS, "filters"), (WEIGHERS, "weighers")):
            for name, source in group.sources.items():
                if source.startswith("valence_sched."):
                    self.assertEqual(f"valence_sched.{room}.{name}:{name}", source)
                    module = importlib.import_module(f"valence_sched.{room}.{name}")
                    self.assertIs(group.by_name[name], getattr(module, name))

    def test_a_filter_keeps_and_a_weigher_prefers(self):
        for name, function in FILTERS.by_name.items():
            self.assertTrue(plugins.summary(function).startswith("Keeps "), name)
        for name, function in WEIGHERS.by_name.items():
            self.assertTrue(plugins.summary(function).startswith("Prefers "), name)


class TestViolators(unittest.TestCase):
    """Each of these plug-ins breaks one rule, and the message names it."""

    def refuses(self, words, check, function, **options):
        with self.assertRaises(AssertionError) as caught:
            check(function, **options)
        self.assertIn(words, str(caught.exception))
        self.assertIn(function.__name__, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))

    def test_an_innocent_filter_and_weigher_pass(self):
        def innocent(view, request, *, word: str = "redfish"):
            """Keeps pod managers of a driver."""
            return np.array([view.podm(row).driver == word for row in range(len(view))], dtype=bool)

        def plain(view, request, *, fact: str = "year"):
            """Prefers pod managers that report a fact."""
            return np.isfinite(view.number(fact)).astype(float)

        testing.check_filter(innocent)
        testing.check_filter(innocent, word="rsd")
        testing.check_weigher(plain)
        testing.check_weigher(plain, fact="noise_db")

    def test_a_plain_function_of_a_pool_passes(self):
        @per_pool
        def traited(podm, pool, request, *, trait: str = "CXL"):
            """Keeps pools with a trait."""
            return trait in pool.traits

        @per_pool
        def young(podm, pool, request):
            """Prefers pod managers of few generations."""
            return 1 / (1 + podm.generation)

        testing.check_filter(traited, trait="WARM")
        testing.check_weigher(young)

    def test_one_that_writes_to_an_array(self):
        def writer(view, request):
            """Keeps pod managers and changes them."""
            free = view.free(request.needs[0])
            free -= 1
            return free >= 0

        self.refuses("wrote to the view", testing.check_filter, writer)

    def test_one_that_switches_a_read_only_array_to_writable(self):
        def burglar(view, request):
            """Keeps pod managers and writes to protected arrays."""
            free = (
                view.block_counts.free
                if view.block_counts.free.base is None
                else view.block_counts.free.base
            )
            free.flags.writeable = True
            free += 1
            return view.all_rows

        self.refuses("wrote to the view", testing.check_filter, burglar)

    def test_one_that_answers_in_the_same_array_again(self):
        used = {}

        def thrifty(view, request):
            """Prefers pod managers and reuses its result array."""
            score = used.setdefault(len(view), np.empty(len(view)))
            score[:] = np.isfinite(view.number("year"))
            return score

        self.refuses("return a new one each time", testing.check_weigher, thrifty)

    def test_one_that_writes_to_a_map_of_the_request(self):
        def scribbler(view, request):
            """Keeps pod managers and writes to their documents."""
            request.capabilities["seen"] = ("yes",)
            return view.all_rows

        self.refuses("wrote to the view or the request", testing.check_filter, scribbler)

    def test_one_that_writes_to_the_facts_of_a_podm(self):
        def marker(view, request):
            """Keeps pod managers and marks them."""
            for podm in view.podms:
                podm.facts["seen"] = 1.0
            return view.all_rows

        self.refuses("wrote to the view", testing.check_filter, marker)

    def test_a_weigher_that_compares_rows_with_each_other(self):
        def relative(view, request):
            """Prefers pod managers with the most of a fact, relative to other candidates."""
            free = view.free(request.needs[0])
            return free / max(1.0, free.max(initial=1.0))

        self.refuses("is not row-local", testing.check_weigher, relative)

    def test_a_filter_that_keeps_the_first_row_only(self):
        def first(view, request):
            """Keeps the first pool."""
            return np.arange(len(view)) == 0

        self.refuses("is not row-local", testing.check_filter, first)

    def test_a_weigher_that_knows_its_row_number(self):
        def numbered(view, request):
            """Prefers pools by their position."""
            return 1.0 / (1.0 + np.arange(len(view)))

        self.refuses("is not row-local", testing.check_weigher, numbered)

    def test_one_that_answers_differently_each_time(self):
        draws = iter(range(10**6))

        def moody(view, request):
            """Prefers pod managers at random."""
            return np.full(len(view), 1.0 / (1.0 + next(draws)))

        self.refuses("differently when asked again", testing.check_weigher, moody)

    def test_nan(self):
        def absent(view, request):
            """Prefers pod managers by a fact that some do not report."""
            return np.clip(view.number("year") / 4000.0, 0.0, 1.0)

        self.refuses("answers NaN", testing.check_weigher, absent)

    def test_a_wrong_shape(self):
        def short(view, request):
            """Keeps all pools but one."""
            return view.all_rows[1:]

        def column(view, request):
            """Prefers all pools alike."""
            return np.ones((len(view), 1))

        def single(view, request):
            """Keeps no pool."""
            return False

        def masked(view, request):
            """Prefers all pools, in a masked array."""
            return np.ma.masked_array(np.ones(len(view)), mask=True)

        self.refuses("returned shape", testing.check_filter, short)
        self.refuses("returned shape", testing.check_weigher, column)
        self.refuses("returned a bool", testing.check_filter, single)
        self.refuses("returned a MaskedArray", testing.check_weigher, masked)

    def test_a_wrong_type(self):
        def floats(view, request):
            """Keeps pools by a number above 0."""
            return np.ones(len(view))

        def flags(view, request):
            """Prefers pools by a boolean."""
            return view.enabled

        self.refuses("returned float64", testing.check_filter, floats)
        self.refuses("returned bool", testing.check_weigher, flags)

    def test_a_weigher_out_of_range(self):
        def amounts(view, request):
            """Prefers pools with larger amounts."""
            return view.free(request.needs[0]) + 0.0

        def signed(view, request):
            """Prefers pools with smaller amounts."""
            return -np.ones(len(view))

        self.refuses("is outside 0..1", testing.check_weigher, amounts)
        self.refuses("is outside 0..1", testing.check_weigher, signed)

    def test_one_that_raises(self):
        def told(view, request):
            """Keeps pod managers that report their year."""
            return np.array([podm.facts["year"] > 0 for podm in view.podms], dtype=bool)

        self.refuses("raised KeyError", testing.check_filter, told)

    def test_options_that_are_not_keyword_only_or_have_no_default(self):
        def positional(view, request, limit=1.0):
            """Keeps pod managers below a limit."""
            return view.all_rows

        def demanding(view, request, *, limit):
            """Keeps pod managers below a limit."""
            return view.all_rows

        def anything(view, request, **options):
            """Keeps pod managers by any option."""
            return view.all_rows

        self.refuses("not keyword-only", testing.check_filter, positional)
        self.refuses("without a default", testing.check_filter, demanding, limit=1)
        self.refuses("name each option", testing.check_filter, anything)

    def test_one_that_does_not_say_what_it_does(self):
        def silent(view, request):
            return view.all_rows

        self.refuses("docstring", testing.check_filter, silent)

    def test_a_filter_that_explains_something_else(self):
        @terms
        def honest(view, request):
            """Keeps pod managers that are enabled."""
            yield Term("enabled", True, view.enabled, holds=view.enabled)

        testing.check_filter(honest)

        def other(view, request):
            yield Term("zone", "az1", view.zone, holds=view.zone.where(lambda z: z == "az1"))

        honest.terms = other
        self.refuses("its terms give another answer", testing.check_filter, honest)
