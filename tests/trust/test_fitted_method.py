"""What a result says of the method that made it."""

from __future__ import annotations

from crowdwise.data.datasets import demo
from crowdwise.estimator.registry import make
from crowdwise.trust.fitted_method import method_of, settings_of


def test_a_method_that_was_named_keeps_all_its_settings() -> None:
    result = make("dawid-skene", smoothing=0.5, class_prior="uniform").fit(demo().votes).result_
    assert method_of(result) == "dawid-skene"
    assert (settings_of(result)["smoothing"], settings_of(result)["class_prior"]) == (0.5, "uniform")


def test_what_was_chosen_has_its_defaults_and_the_choices_class_shares() -> None:
    result = make("auto", methods=["dawid-skene"], class_prior="uniform").fit(demo().votes).result_
    assert method_of(result) == "dawid-skene"
    assert settings_of(result) == {"class_prior": "uniform"} | (
        {"random_state": 0} if "random_state" in make("dawid-skene").get_params() else {}
    )
    # "learn" is left to the method.
    assert "class_prior" not in settings_of(make("auto", methods=["dawid-skene"]).fit(demo().votes).result_)


def test_a_stack_is_no_method() -> None:
    result = make("auto", methods=["majority", "one-coin", "dawid-skene"], stack=True).fit(demo().votes).result_
    assert method_of(result) == "auto"
    assert settings_of(result)["stack"]
