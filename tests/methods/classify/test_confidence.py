"""How sure classifiers with features are: their posterior tempered by hand, and what becomes of new rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.methods.labels.helpers import crowd, diagonal_crowd, quiet

from crowdwise.data.annotations import Annotations
from crowdwise.errors import SettingError
from crowdwise.estimator.judgement import exponent_of
from crowdwise.estimator.registry import classifiers, make
from crowdwise.trust.choice.auto_classifier import AutoClassifier

# The exponents that are documented; two-stage has that of its aggregation, Dawid-Skene.
EXPONENTS = {"raykar": 0.66, "crowd-em": 0.66, "yan": 0.66, "two-stage": 0.77}
N, K = 60, 3


def data(n_votes: int = 5) -> tuple[Any, Annotations, Any]:
    """Weak features, and items with none to `n_votes` votes."""
    votes, truth = crowd(0, N, diagonal_crowd(n_votes, K, 0.7))
    rng = np.random.default_rng(1)
    kept = votes.annotator < (np.arange(N) % (n_votes + 1))[votes.item]
    return np.eye(K)[truth] + rng.normal(0, 1.5, (N, K)), votes.take_votes(kept), truth


def cooled(posterior: Any, votes: Annotations, exponent: float) -> Any:
    """Each row to the power 1 / votes^exponent, one row at a time."""
    rows = []
    for n, row in enumerate(posterior):
        n_votes = int((votes.item == n).sum())
        power = row ** (1 / n_votes**exponent) if n_votes else row
        rows.append(power / power.sum())
    return np.array(rows)


def fitted(name: str, X: Any, votes: Any, **settings: Any) -> Any:
    with quiet():
        return make(name, **settings).fit(X, votes)


@pytest.mark.parametrize(("name", "exponent"), EXPONENTS.items())
def test_labels_are_as_sure_as_experience_allows(name: str, exponent: float) -> None:
    X, votes, _ = data()
    model = fitted(name, X, votes)
    result = model.result_
    assert result.confidence_source == "experience"
    np.testing.assert_allclose(model.posterior_, cooled(result.model_posterior, votes, exponent), atol=1e-9)
    # Sure labels are less so, and those without votes, or with one, as sure as before.
    few = votes.votes_per_item <= 1
    assert result.confidence[~few].mean() < result.model_posterior[~few].max(axis=1).mean() - 0.02
    np.testing.assert_allclose(model.posterior_[few], result.model_posterior[few], atol=1e-12)


@pytest.mark.parametrize("name", ["raykar", "two-stage"])
def test_new_rows_are_as_the_classifier_says_and_with_votes_as_experience_allows(name: str) -> None:
    X, votes, _ = data()
    model = fitted(name, X[:40], votes[:40])
    new, asked = X[40:], votes[40:]
    plain = np.exp(model.model_.log_prob(new))
    np.testing.assert_array_equal(model.predict_proba(new), plain)
    believed, inferred = model.predict_proba(new, asked), model.set_params(confidence="model").predict_proba(new, asked)
    np.testing.assert_array_equal(model.predict_proba(new), plain)
    np.testing.assert_allclose(believed, cooled(inferred, asked, EXPONENTS[name]), atol=1e-9)
    np.testing.assert_allclose(believed[asked.votes_per_item == 0], plain[asked.votes_per_item == 0], atol=1e-9)
    assert np.abs(believed - inferred).max() > 0.05


def test_rows_of_the_training_get_the_same_again() -> None:
    X, votes, _ = data()
    model = fitted("raykar", X, votes)
    np.testing.assert_allclose(model.predict_proba(X, votes), model.posterior_, atol=1e-9)


def test_confidence_of_the_model_leaves_everything_as_it_is() -> None:
    X, votes, _ = data()
    model, cautious = fitted("raykar", X, votes, confidence="model"), fitted("raykar", X, votes)
    assert model.result_.confidence_source == "model"
    np.testing.assert_array_equal(model.posterior_, cautious.result_.model_posterior)
    np.testing.assert_array_equal(model.labels_, cautious.labels_)
    np.testing.assert_array_equal(model.confusion_, cautious.confusion_)
    np.testing.assert_array_equal(model.predict(X, votes), cautious.predict(X, votes))
    with pytest.raises(SettingError, match="confidence must be one of experience, model"):
        fitted("raykar", X, votes, confidence="experienced")


def test_known_labels_stay_known() -> None:
    X, votes, truth = data()
    model = make("raykar").fit(X, votes, gold={n: int(truth[n]) for n in range(5, 15)})
    np.testing.assert_allclose(model.posterior_[np.arange(5, 15), truth[5:15]], 1)


def test_the_chosen_classifier_is_as_sure_as_asked() -> None:
    X, votes, _ = data()
    chosen = {how: AutoClassifier(methods="raykar", confidence=how).fit(X, votes) for how in ("experience", "model")}
    for how, model in chosen.items():
        alone = fitted("raykar", X, votes, confidence=how)
        np.testing.assert_array_equal(model.posterior_, alone.posterior_)
        np.testing.assert_array_equal(model.predict_proba(X, votes), alone.predict_proba(X, votes))
        np.testing.assert_array_equal(model.predict(X, votes), alone.predict(X, votes))


def test_every_classifier_has_an_exponent() -> None:
    assert {name: exponent_of(name) for name in classifiers()} == {
        name: 0.77 if name == "two-stage" else 0.66 for name in classifiers()
    }
    assert exponent_of("auto-classifier: raykar (classifier=gaussian)") == 0.66
    assert exponent_of("auto-classifier: two-stage (aggregator=majority)") == 0.77
