# SPDX-License-Identifier: Apache-2.0
"""Domain indexes: the values of a topology domain (zone, location, a fact, ...) per row."""

import itertools
from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from valence_sched.model.base import as_text
from valence_sched.model.inventory import LeanPodm
from valence_sched.model.request import FACT_PREFIX, check_domain
from valence_sched.view.view import Floats, Ints, View, read_only


class DomainIndex(Struct, frozen=True):
    """The values of one domain by row: ``numbers``, of shape ``(rows, most values of a row)``.

    A row with fewer values than others is filled with the number after the last value.
    """

    values: dict[str, int]
    numbers: Ints

    def largest_count(self, counts: Mapping[str, int]) -> Floats:
        """Return per row the largest count among its values; NaN where it has no value."""
        size, last = len(counts), len(self.values)
        if size > last:  # few rows: most values are of other rows
            by_value = np.array([*(counts.get(value, 0) for value in self.values), np.nan])
        else:
            by_value = np.zeros(last + 1)
            numbers = (self.values.get(value, last) for value in counts)
            index = np.fromiter(numbers, np.int64, size)
            by_value[index] = np.fromiter(counts.values(), np.int64, size)
            by_value[-1] = np.nan
        if self.numbers.shape[1] == 1:
            return by_value.take(self.numbers[:, 0])
        largest: Floats = np.fmax.reduce(by_value[self.numbers], axis=1)
        return largest


def domain_index(view: View, domain: str) -> DomainIndex:
    """Return the values of a domain by row, which the View remembers; RequestError if unknown."""
    return view.memoise(("domain index", domain), lambda: _domain_index(view, domain))  # type: ignore[no-any-return]


def domain_values(podm: LeanPodm, domain: str) -> tuple[str, ...]:
    """Return the values of a domain that a pod manager has; none if it does not report any."""
    if domain == "podm":
        return (podm.id,)
    if domain == "aggregate":
        return tuple(dict.fromkeys(podm.aggregates))
    reported = podm.zone if domain == "zone" else podm.facts.get(domain.removeprefix(FACT_PREFIX))
    values = reported if isinstance(reported, tuple) else (reported,)
    texts = (as_text(item) for item in values if item is not None)
    return tuple(dict.fromkeys(text for text in texts if text))


def _domain_index(view: View, domain: str) -> DomainIndex:
    check_domain(domain)
    values_by_podm = [domain_values(podm, domain) for podm in view.podms]
    value_numbers: dict[str, int] = {}
    for value in itertools.chain.from_iterable(values_by_podm):
        value_numbers.setdefault(value, len(value_numbers))
    width = max(map(len, values_by_podm), default=1) or 1
    table = np.full((len(values_by_podm), width), len(value_numbers), dtype=np.int64)
    for podm, values in enumerate(values_by_podm):
        for column, value in enumerate(values):
            table[podm, column] = value_numbers[value]
    return DomainIndex(value_numbers, read_only(table[view.podm_of]))
