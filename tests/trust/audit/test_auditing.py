"""Draw and certify on a simulated crowd: what is accepted, corrected, estimated and expected."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from tests.trust.audit.crowds import crowd, filled

from crowdwise.errors import InputError, SettingError
from crowdwise.trust.audit import certify, draw
from crowdwise.trust.audit.checks import to_fill


def test_draws_are_the_same_for_the_same_seed_and_differ_for_others() -> None:
    result, _ = crowd()
    first, again, other = (draw(result, 30, seed=seed).frame() for seed in (1, 1, 2))
    assert first.equals(again)
    assert first["item"].to_list() != other["item"].to_list()
    assert draw(result, 50, seed=1).frame()["item"][:30].to_list() == first["item"].to_list()


@pytest.mark.slow
def test_checked_labels_become_true_and_only_they_change() -> None:
    result, gold = crowd()
    table = filled(draw(result, 150).frame(), gold)
    audit = certify(result, table, error=0.1)
    frame = audit.frame()
    before = dict(zip(result.votes.items.tolist(), result.labels.tolist(), strict=True))
    drawn = set(table["item"])
    for item, label in frame.select("item", "label").rows():
        assert label == (gold[item] if item in drawn else before[item])
    wrong = [item for item in table["item"] if before[item] != gold[item]]
    assert sorted(result.votes.items[audit.corrected].tolist()) == sorted(wrong)
    assert wrong


@pytest.mark.slow
def test_accepted_are_the_surest_and_the_checked() -> None:
    result, gold = crowd()
    audit = certify(result, filled(draw(result, 200, error=0.2).frame(), gold), error=0.2)
    assert audit.n_certified > 0
    sure = result.confidence >= audit.threshold - 1e-12
    checked = audit.true_code >= 0
    assert (audit.accept == (sure | checked)).all()
    assert sure.sum() == audit.n_certified
    # In this audit the certificate holds.
    truth = np.array([gold[item] for item in result.votes.items])
    assert (result.labels != truth)[sure].mean() <= 0.2
    assert audit.right.low <= (result.labels == truth).mean() <= audit.right.high


@pytest.mark.slow
def test_more_than_was_drawn_is_never_used_twice() -> None:
    """Drawing on from a table keeps its answers, and looking early does not change what is found later."""
    result, gold = crowd()
    early = filled(draw(result, 60).frame(), gold)
    certify(result, early)
    later = draw(result, 60, more=early)
    assert later.frame()["true label"][:60].to_list() == early["true label"].to_list()
    at_once = filled(draw(result, 120).frame(), gold)
    one, two = (certify(result, table).facts() for table in (filled(later.frame(), gold), at_once))
    assert one == two


def test_the_outlook_comes_true_in_order() -> None:
    result, gold = crowd(1500, 3)
    audit = certify(result, filled(draw(result, 20, error=0.2).frame(), gold), error=0.2)
    steps = audit.outlook
    assert steps
    assert [checks for checks, _ in steps] == sorted(checks for checks, _ in steps)
    assert [share for _, share in steps] == sorted(share for _, share in steps)
    assert steps[0][0] > 0
    assert steps[0][1] >= 0.25


def test_an_audit_by_a_hopeless_crowd_expects_nothing() -> None:
    result, gold = crowd()
    classes = sorted(set(gold.values()))
    wrong = {item: classes[(classes.index(label) + 1) % 3] for item, label in gold.items()}
    audit = certify(result, filled(draw(result, 60).frame(), wrong))
    assert audit.n_certified == 0
    assert audit.outlook == []
    assert audit.right.high < 0.5


def test_confidence_that_was_lowered_for_shared_errors_is_not_raised_again() -> None:
    result, gold = crowd()
    # Every other label is in dispute: two classes come out even, whatever the exponent of this crowd is.
    rows, even = np.arange(result.votes.n_items), result.posterior.copy()
    disputed, second = (rows % 2 == 0) & (result.confidence > 0.6), np.argsort(result.posterior, axis=1)[:, -2]
    even[disputed] = 0
    even[disputed, result.codes[disputed]], even[disputed, second[disputed]] = 0.5 + 1e-6, 0.5 - 1e-6
    lowered = replace(result, posterior=even)
    audit = certify(lowered, filled(draw(lowered, 60).frame(), gold))
    # Classes with ten checks or more have an intercept, by which two that are even differ a little.
    audited = audit.exponent.posterior[rows, lowered.codes]
    np.testing.assert_allclose(audited[disputed], 0.5, atol=0.15)
    # Nothing was lowered: the model's own posterior is tempered, as ever.
    plain = certify(result, filled(draw(result, 60).frame(), gold)).exponent.posterior[rows, result.codes]
    assert plain[disputed].mean() > 0.7


def test_known_labels_are_accepted_and_not_drawn() -> None:
    result, gold = crowd()
    known = dict(list(gold.items())[:100])
    with_gold = replace(result, votes=result.votes.with_gold(known))
    table = filled(draw(with_gold, 50).frame(), gold)
    assert not set(table["item"]) & set(known)
    frame = certify(with_gold, table).frame()
    assert frame.filter(pl.col("note") == "known").height == 100
    assert set(frame.filter(pl.col("note") == "known")["decision"]) == {"accept"}


def test_what_cannot_be_audited_is_refused() -> None:
    result, gold = crowd()
    with pytest.raises(SettingError, match="at least 1"):
        draw(result, 0)
    with pytest.raises(SettingError, match="error must be between"):
        draw(result, 5, error=0)
    with pytest.raises(InputError, match="nothing to check"):
        draw(replace(result, votes=result.votes.with_gold(gold)), 5)
    table = draw(result, 5).frame()
    with pytest.raises(InputError, match="no label is checked yet"):
        certify(result, table)
    with pytest.raises(SettingError, match="level must be between"):
        certify(result, filled(table, gold), level=1)
    with pytest.raises(InputError, match="other votes"):
        certify(crowd(400, 1)[0], filled(table, gold))


def test_a_pandas_table_and_integer_ids_serve_as_well() -> None:
    pandas = pytest.importorskip("pandas")
    result, gold = crowd()
    numbers = replace(result, votes=replace(result.votes, items=np.arange(result.votes.n_items)))
    table = draw(numbers, 20).frame()
    truth = [gold[result.votes.items[item]] for item in table["item"]]
    found = certify(numbers, pandas.DataFrame(table.with_columns(pl.Series("true label", truth)).to_dict(as_series=False)))
    assert found.facts()["n_checked"] == 20


def test_a_table_to_fill_has_these_items_and_no_labels() -> None:
    result, _ = crowd()
    table = to_fill(result.votes, np.array([3, 1]))
    assert table["item"].to_list() == result.votes.items[[3, 1]].tolist()
    assert table.schema["true label"] == pl.String
    assert table["true label"].null_count() == 2


def test_a_label_that_the_checks_make_unlikely_is_marked() -> None:
    result, gold = crowd()
    audit = certify(result, filled(draw(result, 60).frame(), gold))
    # As if the checks had shown that class 0 is hardly ever right.
    zero, posterior = result.codes == 0, np.eye(result.votes.n_classes)[result.codes]
    posterior[zero, 0], posterior[zero, 1] = 0.3, 0.7
    frame = replace(audit, exponent=replace(audit.exponent, posterior=posterior)).frame()
    open_ = frame["confidence_source"] == "audit"
    np.testing.assert_array_equal((frame["note"] == "another class is likelier").to_numpy(), zero & open_.to_numpy())
    assert frame.filter(open_)["label"].equals(audit.frame().filter(open_)["label"])
