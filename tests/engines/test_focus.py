"""Rounds over the items that still move: what they report, and that nothing is lost by them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import xlogy
from tests.engines.helpers import InTwo

from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import simulate
from crowdwise.engines import focus as focus_module
from crowdwise.engines import loop as engine
from crowdwise.engines.focus import Focus, extrapolated, infer_and_compare
from crowdwise.engines.loop import Round, Run, alternate_over, loop, remaining, settled
from crowdwise.engines.shards import Kept, Parts, Shard, Tally, Whole, begin_at
from crowdwise.kernels.numerics import log_floored
from crowdwise.methods.labels.dawid_skene import DawidSkene
from crowdwise.parts.annotators.model import Confusion, DirichletConfusion
from crowdwise.parts.priors.marginals import DirichletMarginals, Marginals

K = 3
CROWD = simulate(n_items=600, n_annotators=15, n_classes=K, votes_per_item=4, random_state=1)
NONE = np.empty(0, np.int16)


def parts(bayes: bool) -> tuple[Any, Any]:
    if bayes:
        return DirichletMarginals(np.ones(K), np.ones(K)), DirichletConfusion.start(np.full((1, K, K), 0.6), 15)
    return Marginals(np.full(K, 1 / K)), Confusion.start(np.full((1, K, K), 0.3), 15)


def begun(shards: Any, prior: Any, annotators: Any, votes: Annotations = CROWD.votes) -> Tally:
    shares = np.zeros((votes.n_items, K))
    np.add.at(shares, (votes.item, votes.label), 1.0)
    return shards.renew(begin_at, prior, annotators, False, shares / shares.sum(axis=1, keepdims=True))


def focused(bayes: bool = False, max_iter: int = 1000, tol: float = 1e-7, watch: Any = None) -> tuple[Whole, Run[Parts]]:
    shards = Whole(CROWD.votes, NONE)
    prior, annotators = parts(bayes)
    state = Parts(prior, annotators, begun(shards, prior, annotators))
    focus = Focus(shards, tol=tol, max_iter=max_iter, before=())

    def step(now: Parts) -> tuple[Parts, Round]:
        now, done = focus(now)
        if watch is not None:
            watch(shards.posterior, now, done)
        return now, done

    return shards, loop(step, state, max_iter=max_iter, tol=tol)


def free_energy(q: np.ndarray, now: Parts) -> float:
    """E_q[log p(votes, classes)] + entropy of q - penalties, vote by vote."""
    votes = CROWD.votes
    log_table = log_floored(now.annotators.vote_table())
    energy = float((q @ now.prior.log_prob()[0]).sum()) - float(xlogy(q, q).sum())
    for item, annotator, label in zip(votes.item, votes.annotator, votes.label, strict=True):
        energy += float(q[item] @ log_table[annotator, label])
    return energy - now.prior.penalty() - now.annotators.penalty()


@pytest.mark.parametrize("bayes", [False, True])
def test_the_bound_is_the_free_energy_of_the_posteriors_there_are_and_never_falls(bayes: bool) -> None:
    found: list[tuple[float, float]] = []
    _, run = focused(bayes, watch=lambda q, now, done: found.append((done.bound, free_energy(q, now))))
    assert {done.scope for done in run.rounds} == {"all", "some", "catch-up"}
    bounds, energies = np.array(found).T
    np.testing.assert_allclose(bounds, energies, rtol=1e-11)
    assert np.diff(bounds).min() > -1e-9 * abs(bounds[-1])


@pytest.mark.parametrize("bayes", [False, True])
@pytest.mark.parametrize("tol", [1e-6, 1e-10])
def test_the_end_is_that_of_a_fit_that_looks_at_all_items_in_every_round(
    bayes: bool, tol: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "FOCUS_FROM", 10**9)
    shards = Whole(CROWD.votes, NONE)
    plain = alternate_over(shards, *parts(bayes), start=begun(shards, *parts(bayes)), max_iter=3000, tol=tol)
    shards, run = focused(bayes, 3000, tol)
    assert run.converged
    assert plain.converged
    assert (shards.posterior.argmax(axis=1) == plain.posterior.argmax(axis=1)).all()
    np.testing.assert_allclose(shards.posterior, plain.posterior, atol=1e4 * tol)
    np.testing.assert_allclose(run.rounds[-1].bound, plain.bound, rtol=100 * tol)


@pytest.mark.parametrize("max_iter", [1, 2, 3, 4, 5, 8, 9, 10, 11, 20, 1000])
def test_wherever_it_ends_all_posteriors_follow_from_the_parts(max_iter: int) -> None:
    shards, run = focused(max_iter=max_iter)
    prior, annotators = run.state.prior, run.state.annotators
    expected = np.zeros_like(shards.posterior)
    annotators.infer(CROWD.votes, prior.log_prob(), NONE, expected)
    np.testing.assert_allclose(shards.posterior, expected, atol=1e-15)
    assert run.n_iter == max_iter or run.converged
    assert run.rounds[-1].scope != "some"


def test_only_a_plain_round_over_all_items_may_end_a_fit() -> None:
    for scope, ends in (("all", True), ("some", False), ("catch-up", False)):
        rounds = [Round(1e-3), Round(1e-9, scope=scope)]  # type: ignore[arg-type]
        assert settled(rounds, 1e-6) is ends
    _, run = focused()
    assert run.converged
    assert run.rounds[-1].scope == "all"
    assert run.rounds[-2].scope in ("all", "catch-up")


def test_items_that_catch_up_do_not_count_as_a_change_that_halved() -> None:
    changes = [0.8, 0.7, 0.6, 0.5]
    plain = [Round(change) for change in changes]
    caught = [*plain[:-1], Round(5.0, scope="catch-up"), plain[-1]]
    assert remaining(caught) == pytest.approx(0.5 / (2 ** (1 / 5) - 1))
    assert remaining([*plain[:-1], Round(5.0), plain[-1]]) == pytest.approx(0.5)


def test_a_round_that_was_extrapolated_counts_as_many_and_is_no_change_that_halved() -> None:
    plain = [Round(0.8), Round(0.7), Round(0.6), Round(0.4)]
    assert remaining(plain) == pytest.approx(0.4 / (2 ** (1 / 3) - 1))
    leaps = [Round(0.8), Round(0.7), Round(0.9, span=20), Round(0.4)]
    assert remaining(leaps) == pytest.approx(0.4 / (2 ** (1 / 22) - 1))
    assert remaining([Round(0.5, span=3), Round(0.4)]) == pytest.approx(0.4 / (2 ** (1 / 4) - 1))


def test_rounds_come_back_as_they_were_kept_also_from_older_files() -> None:
    terms = {"votes": -3.0, "class prior": -2.0, "annotators": -1.0}
    for done in (Round(0.1, terms), Round(0.1, terms, "catch-up"), Round(0.1, terms, "some", 7.5)):
        assert Round.of_row(done.row) == done
    assert Round.of_row([-3, -2, -1, 0.1]) == Round(0.1, terms)
    assert Round.of_row([-3, -2, -1, 0.1, 1]) == Round(0.1, terms, "some")


@pytest.mark.parametrize("factor", [0.5, 0.9, 0.99])
def test_counts_that_close_in_at_one_pace_are_extrapolated_to_the_end(factor: float) -> None:
    rng = np.random.default_rng(0)
    end, away = (rng.uniform(5, 9, 3), rng.uniform(5, 9, (4, 3, 3))), (rng.normal(size=3), rng.normal(size=(4, 3, 3)))
    first, second, third = (tuple(there + factor**n * way for there, way in zip(end, away, strict=True)) for n in range(3))
    found = extrapolated(first, second, third)
    assert found is not None
    sums, length = found
    assert length == pytest.approx(1 / (1 - factor))
    for there, here in zip(end, sums, strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-9)


def test_counts_are_not_extrapolated_below_zero_nor_where_there_is_nowhere_to_go() -> None:
    rest = np.array([4.0])
    assert extrapolated((rest,), (rest,), (rest,)) is None
    assert extrapolated((rest,), (rest + 1,), (rest - 3,)) is None
    found = extrapolated((np.array([4.0]),), (np.array([2.5]),), (np.array([1.1]),))
    assert found is not None
    assert found[0][0].tolist() == pytest.approx([0.11])


def test_extrapolated_rounds_are_taken_only_where_the_bound_does_not_fall(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, _ = focused(tol=1e-9)
    _, leaping = focused(tol=1e-9)
    assert any(done.span > 1 for done in leaping.rounds)
    asked: list[int] = []

    def astray(*path: Any) -> Any:
        asked.append(1)
        return tuple(sums[..., ::-1] for sums in path[-1]), 5.0

    monkeypatch.setattr(focus_module, "extrapolated", astray)
    shards, run = focused(tol=1e-9)
    assert asked
    assert all(done.span == 1 for done in run.rounds)
    assert np.diff([done.bound for done in run.rounds]).min() > -1e-9 * abs(run.rounds[-1].bound)
    np.testing.assert_allclose(shards.posterior, plain.posterior, atol=1e-5)


def test_the_items_that_moved_are_found() -> None:
    prior, annotators = parts(False)
    shards = Whole(CROWD.votes, NONE)
    begun(shards, prior, annotators)
    before = shards.posterior.copy()
    fitted = annotators.update(CROWD.votes, before)
    tally = shards.refine(infer_and_compare, prior, fitted, 0.05)
    expected = np.flatnonzero(np.abs(shards.posterior.max(axis=1) - before.max(axis=1)) > 0.05)
    assert 0 < len(expected) < CROWD.votes.n_items
    np.testing.assert_array_equal(shards.shard.moving, expected)
    assert tally.sums[-1].tolist() == [len(expected)]


def test_votes_that_are_distributions_all_move() -> None:
    shares = np.random.default_rng(0).dirichlet(np.ones(K), 40)
    item = np.repeat(np.arange(20), 2)
    votes = Annotations.from_arrays(
        np.repeat(item, K), np.repeat(np.tile([0, 1], 20), K), np.tile(np.arange(K), 40), weight=shares.ravel()
    )
    object.__setattr__(votes, "soft", True)
    prior, annotators = Marginals(np.full(K, 1 / K)), Confusion.start(np.full((1, K, K), 0.3), 2)
    shard = Shard(votes, NONE, np.full((20, K), 1 / K))
    infer_and_compare(shard, prior, annotators, 1.0)
    assert len(shard.moving) == 20


class Stop(Exception):
    pass


def test_two_shards_are_one_fit_and_resume_to_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "FOCUS_FROM", 0)
    prior, annotators = parts(False)
    one = Whole(CROWD.votes, NONE)
    whole = alternate_over(one, prior, annotators, start=begun(one, prior, annotators), max_iter=1000, tol=1e-7)

    def run(stop: int = 0, memory: Kept | None = None) -> tuple[InTwo, Any]:
        shards = InTwo(CROWD.votes, CROWD.votes.n_items // 3)
        shards.memory = memory

        def progress(number: int, *_: float) -> None:
            if number == stop:
                raise Stop

        start = None
        if memory is None:
            tallies = [begun(part, prior, annotators, part.votes) for part in shards.parts]
            start = tallies[0] + tallies[1]
        try:
            return shards, alternate_over(
                shards, prior, annotators, start=start, max_iter=1000, tol=1e-7, progress=progress if stop else None
            )
        except Stop:
            return shards, None

    _, fit = run()
    assert fit.n_iter == whole.n_iter
    np.testing.assert_allclose(fit.posterior, whole.posterior, atol=1e-12)
    for stop in (1, 2, 6, 11, 25, whole.n_iter - 1):
        cut, _ = run(stop)
        assert cut.memory is not None
        assert len(cut.memory.rows) <= stop
        _, resumed = run(memory=cut.memory)
        for term, values in fit.trace.items():
            np.testing.assert_array_equal(resumed.trace[term], values)
        np.testing.assert_array_equal(resumed.posterior, fit.posterior)


def test_known_labels_and_weights_keep_their_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    votes = CROWD.votes
    gold = dict(zip(votes.items[:50].tolist(), votes.classes[CROWD.truth[:50]].tolist(), strict=True))
    weighted = Annotations.from_arrays(
        votes.item, votes.annotator, votes.label, weight=np.random.default_rng(0).uniform(0.5, 2, votes.n_votes)
    )
    for given in (votes, weighted):
        fits = []
        for size in (0, 10**9):
            monkeypatch.setattr(engine, "FOCUS_FROM", size)
            fits.append(DawidSkene(tol=1e-9, max_iter=5000).fit(given, gold=gold if given is votes else None).result_)
        np.testing.assert_allclose(fits[0].model_posterior, fits[1].model_posterior, atol=1e-4)
        assert (fits[0].codes == fits[1].codes).all()


def test_small_fits_and_hard_ones_and_other_rules_look_at_all_items(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError

    monkeypatch.setattr("crowdwise.engines.focus.Focus", never)
    DawidSkene().fit(CROWD.votes)
    monkeypatch.setattr(engine, "FOCUS_FROM", 0)
    DawidSkene(hard=True).fit(CROWD.votes)
    shards = Whole(CROWD.votes, NONE)
    prior, annotators = parts(False)
    start = begun(shards, prior, annotators)
    alternate_over(shards, prior, annotators, start=start, max_iter=9, tol=1e-6, rule=lambda rounds, _: len(rounds) > 3)
    with pytest.raises(AssertionError):
        DawidSkene().fit(CROWD.votes)
