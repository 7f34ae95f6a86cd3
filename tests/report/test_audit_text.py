from __future__ import annotations

from dataclasses import replace

import pytest
from tests.trust.audit.crowds import crowd, filled

from crowdwise.report.audit_text import audit_lines
from crowdwise.trust.audit import certify, draw


@pytest.mark.slow
def test_a_share_among_the_checked_that_differs_from_the_estimate_is_explained() -> None:
    result, gold = crowd()
    audit = certify(result, filled(draw(result, 80).frame(), gold), error=0.1)
    found = replace(audit.right, share=0.8953, low=0.8, high=0.97, n_checked=80, n_wrong=2)
    said = "\n".join(audit_lines(replace(audit, right=found)))
    assert "of the 80 checked themselves 97.5% are right, but sure items are checked more often" in said
    close = "\n".join(audit_lines(replace(audit, right=replace(found, share=0.97))))
    assert "checked themselves" not in close


@pytest.mark.slow
def test_certified_labels_that_nobody_could_tell_are_left_out_of_the_count() -> None:
    result, gold = crowd()
    table = filled(draw(result, 300, error=0.2).frame(), gold)
    audit = certify(result, table, error=0.2)
    sure = [item for item in table["item"] if audit.certified[result.votes.items.tolist().index(item)]]
    unclear = {**gold, sure[-1]: "?"}
    audit = certify(result, filled(table, unclear), error=0.2)
    marked = audit.frame()["decision"].to_list().count("accept")
    beside = int((audit.accept & ~audit.certified).sum())
    assert marked == audit.n_certified - 1 + beside
    said = "\n".join(audit_lines(audit))
    assert f"decision accept: {marked} labels, the {audit.n_certified} certified, without 1 that nobody could tell" in said
