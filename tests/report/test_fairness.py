from __future__ import annotations

import pytest
from tests.trust.fairness.crowds import biased_crowd

from crowdwise.data.annotations import Annotations
from crowdwise.methods.labels.dawid_skene import DawidSkene
from crowdwise.report.full import report_page


def test_names_of_groups_and_annotators_cannot_leave_the_page() -> None:
    evil = "<script>alert(1)</script>"
    votes = Annotations.from_arrays([0, 0, 1, 1], [evil, "y", evil, "y"], [evil, "b", "b", "b"])
    page = report_page(DawidSkene().fit(votes), groups=[evil, "h"])
    assert evil not in page
    assert "How groups are treated" in page


@pytest.mark.slow
def test_one_group_is_said_to_be_one() -> None:
    crowd = biased_crowd(0, n_items=30)
    page = report_page(DawidSkene().fit(crowd.votes), groups=["all"] * 30)
    assert "nothing to compare" in page


@pytest.mark.slow
def test_many_groups_fit_on_the_page() -> None:
    crowd = biased_crowd(0, n_items=60)
    page = report_page(DawidSkene().fit(crowd.votes), groups=[f"g{n % 30}" for n in range(60)])
    assert "and 10 more" in page
    assert "20 more in" in page
