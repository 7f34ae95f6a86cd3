from __future__ import annotations

import warnings

import numpy as np
import polars as pl
import pytest
from scipy.special import digamma, gammaln
from tests.methods.tags.oracle import enumerate_chain, span_weight, spans_by_hand

from crowdwise.data.simulate.tokens import simulate_tags
from crowdwise.data.token_votes import TokenVotes
from crowdwise.errors import ConvergenceWarning, InputError, NotFittedError
from crowdwise.estimator.registry import make
from crowdwise.methods.tags.baselines import TokenDawidSkene, TokenMajority
from crowdwise.methods.tags.bsc import BSC, previous_tags
from crowdwise.methods.tags.hmm_crowd import HMMCrowd
from crowdwise.methods.tags.scheme import Tags
from crowdwise.methods.tags.scoring import first_tokens, span_scores

EVERY = [TokenMajority, TokenDawidSkene, HMMCrowd, BSC]


def tags_of(*rows, **more):
    sequence, position, annotator, label = zip(*rows, strict=True)
    return TokenVotes.from_arrays(sequence, position, annotator, label, **more)


TINY = tags_of(
    *[(1, t, who, tag) for who, said in (("x", "BIOB"), ("y", "BOOB"), ("z", "OIIO"))
      for t, tag in enumerate(["O" if c == "O" else f"{c}-P" for c in said])],
    *[(2, t, who, tag) for who, said in (("x", "OBI"), ("y", "BIO"))
      for t, tag in enumerate(["O" if c == "O" else f"{c}-P" for c in said])],
)  # fmt: skip


def hmm_by_hand(result, tags, log_rows):
    """Initial, transition and emission of each sequence, from parameters and votes alone."""
    votes = tags.votes
    for s in range(tags.n_sequences):
        tokens = range(tags.sequence_ptr[s], tags.sequence_ptr[s + 1])
        emission = np.ones((len(tokens), votes.n_classes))
        for row, n in enumerate(tokens):
            for e in range(votes.item_ptr[n], votes.item_ptr[n + 1]):
                emission[row] *= np.exp(log_rows(e))
        yield list(tokens), emission


@pytest.mark.parametrize("bio", [True, False])
@pytest.mark.parametrize("annotators", ["matrix", "vector"])
def test_hmm_crowd_equals_enumeration_under_its_own_parameters(bio, annotators):
    result = HMMCrowd(bio=bio, annotators=annotators, tol=1e-12, max_iter=5000).fit(TINY).result_
    initial, transition = result.transition[-1], result.transition[:-1]
    votes, names = TINY.votes, TINY.votes.classes.tolist()
    found = {}
    for tokens, emission in hmm_by_hand(
        result, TINY, lambda e: np.log(result.confusion[votes.annotator[e], :, votes.label[e]])
    ):
        _, posterior, _, best = enumerate_chain(initial, transition, emission)
        np.testing.assert_allclose(result.posterior[tokens], posterior, atol=1e-6)
        assert tuple(result.path[tokens]) == best
        for start, end, kind in spans_by_hand([names[k] for k in best]):
            found[tokens[start], tokens[end]] = span_weight(initial, transition, emission, names, (start, end, kind))
    got = {(int(a), int(b)): p for a, b, p in zip(result.spans.start, result.spans.end, result.confidence, strict=True)}
    assert got.keys() == found.keys()
    for key, value in found.items():
        assert got[key] == pytest.approx(value, abs=1e-6)


def test_the_objective_of_hmm_crowd_is_log_evidence_plus_log_prior():
    model = HMMCrowd(smoothing=0, transition_smoothing=0, tol=1e-12, max_iter=3000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = model.fit(TINY).result_
    votes, total = TINY.votes, 0.0
    rows = lambda e: np.log(np.maximum(result.confusion[votes.annotator[e], :, votes.label[e]], 1e-300))  # noqa: E731
    for _, emission in hmm_by_hand(result, TINY, rows):
        total += np.log(enumerate_chain(result.transition[-1], result.transition[:-1], emission)[0])
    assert result.trace["objective"][-1] == pytest.approx(total, abs=1e-5)


def test_bsc_conditions_on_the_annotators_previous_tag():
    tags = tags_of((1, 0, "x", "B-P"), (1, 1, "x", "I-P"), (1, 3, "x", "I-P"), (1, 2, "y", "O"), (2, 0, "x", "O"))
    names = tags.votes.classes.tolist()
    said = {
        (int(tags.votes.item[e]), str(tags.votes.annotators[tags.votes.annotator[e]])): names[previous_tags(tags)[e]]
        for e in range(tags.votes.n_votes)
    }
    # Token 3 follows one that x left out, so what x said before counts as O.
    assert said == {(0, "x"): "O", (1, "x"): "B-P", (2, "y"): "O", (3, "x"): "O", (4, "x"): "O"}


def test_bsc_equals_enumeration_and_its_bound_is_that_of_the_model():
    model = BSC(tol=1e-13, max_iter=5000).fit(TINY)
    result, votes = model.result_, TINY.votes
    n_classes, names = votes.n_classes, votes.classes.tolist()
    # From the posterior alone: expected counts, then Dirichlets, then exp E log, then sums over all paths.
    prior = np.where(np.eye(n_classes, dtype=bool), 5.0, 2 / (n_classes - 1))
    previous = previous_tags(TINY)
    rows = {}
    for e in range(votes.n_votes):
        key = int(votes.annotator[e]), int(previous[e])
        rows.setdefault(key, prior.copy())[:, votes.label[e]] += result.posterior[votes.item[e]]

    def log_rows(e):
        table = rows[int(votes.annotator[e]), int(previous[e])]
        return digamma(table[:, votes.label[e]]) - digamma(table.sum(axis=1))

    allowed = Tags.of(votes.classes, bio=True).allowed
    mean = result.transition
    # Rows of the posterior mean times their totals: sequences for the last row, tokens with a successor for the others.
    pairs, first = np.zeros((n_classes, n_classes)), np.zeros(n_classes)
    alpha = np.where(allowed, 1.0, 0.0)
    for _ in range(2):
        counts = np.vstack([pairs, first]) if pairs.sum() else None
        if counts is not None:
            alpha = np.where(allowed, 1.0 + counts, 0.0)
        else:
            totals = np.array([result.posterior[[0, 1, 2, 4, 5], k].sum() for k in range(n_classes)] + [2.0])
            alpha = mean * (totals + allowed.sum(axis=1))[:, None]
        with np.errstate(divide="ignore"):
            weight = np.where(allowed, np.exp(digamma(np.where(allowed, alpha, 1)) - digamma(alpha.sum(axis=1))[:, None]), 0.0)
        pairs, first, bound = np.zeros((n_classes, n_classes)), np.zeros(n_classes), 0.0
        for tokens, emission in hmm_by_hand(result, TINY, log_rows):
            evidence, posterior, two, best = enumerate_chain(weight[-1], weight[:-1], emission)
            pairs, first, bound = pairs + two, first + posterior[0], bound + np.log(evidence)
            np.testing.assert_allclose(result.posterior[tokens], posterior, atol=1e-5)
            assert tuple(result.path[tokens]) == best
            for start, end, kind in spans_by_hand([names[k] for k in best]):
                where = np.flatnonzero((result.spans.start == tokens[start]) & (result.spans.end == tokens[end]))
                expected = span_weight(weight[-1], weight[:-1], emission, names, (start, end, kind))
                assert result.confidence[where] == pytest.approx(expected, abs=1e-5)
    for row, mask in zip(alpha, allowed, strict=True):
        bound -= divergence(row[mask], np.ones(mask.sum()))
    for table in rows.values():
        bound -= sum(divergence(row, before) for row, before in zip(table, prior, strict=True))
    assert model.trace_[-1] == pytest.approx(bound, abs=1e-5)


def divergence(after, before):
    """KL of one Dirichlet from another, from its definition."""
    log_mean = digamma(after) - digamma(after.sum())
    log_b = [gammaln(x).sum() - gammaln(x.sum()) for x in (after, before)]
    return log_b[1] - log_b[0] + ((after - before) * log_mean).sum()


@pytest.mark.parametrize(
    "model", [HMMCrowd(), HMMCrowd(annotators="vector"), HMMCrowd(bio=False), BSC(), BSC(bio=False)], ids=repr
)
def test_the_bound_never_falls(model):
    for seed in range(2):
        tags, _ = simulate_tags(12, 4, random_state=seed)
        model.set_params(tol=0, max_iter=40)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            trace = model.fit(tags).trace_
        assert (np.diff(trace) > -1e-8 * abs(trace[-1])).all()


@pytest.mark.parametrize("method", EVERY)
def test_tags_are_valid_and_probabilities_are_probabilities(method):
    tags, _ = simulate_tags(30, 5, accuracy=(0.2, 0.6), random_state=3)
    model = method().fit(tags)
    names, first = model.labels_.tolist(), first_tokens(tags.sequence_ptr)
    for n, name in enumerate(names):
        if name.startswith("I-"):
            assert not first[n]
            assert names[n - 1] in (name, f"B-{name[2:]}")
    np.testing.assert_allclose(model.posterior_.sum(axis=1), 1.0)
    result = model.result_
    assert ((result.confidence > 0) & (result.confidence <= 1)).all()
    if method in (HMMCrowd, BSC):
        marginal = [
            min(result.posterior[t, result.path[t]] for t in range(a, b + 1))
            for a, b in zip(result.spans.start, result.spans.end, strict=True)
        ]
        assert (result.confidence <= np.array(marginal) + 1e-9).all()
        assert (result.confidence < np.array(marginal) - 1e-3).any()


@pytest.mark.slow
def test_sequence_methods_beat_majority_on_a_simulated_crowd_that_errs_in_runs():
    scores = {}
    for method in EVERY:
        values = []
        for seed in range(2):
            tags, truth = simulate_tags(120, 8, random_state=seed)
            model = method().fit(tags)
            code = {name: k for k, name in enumerate(tags.votes.classes.tolist())}
            true = np.array([code[name] for name in truth])
            wanted = model.result_.scheme.spans(true, first_tokens(tags.sequence_ptr))
            values.append(span_scores(model.result_.spans, wanted)["f1"])
        scores[method.name] = np.mean(values)
    assert scores["bsc"] > scores["token-majority"] + 0.05
    assert scores["hmm-crowd"] > scores["token-majority"] + 0.05
    assert scores["bsc"] > 0.8


def test_hmm_crowd_recovers_the_annotators_it_was_simulated_from():
    rng = np.random.default_rng(0)
    names = ["O", "B-X", "I-X"]
    chain = np.array([[0.8, 0.2, 0.0], [0.4, 0.1, 0.5], [0.5, 0.1, 0.4]])
    rows, truth = [], []
    confusion = np.stack([a * np.eye(3) + (1 - a) / 3 for a in (0.9, 0.7, 0.6)])
    for s in range(300):
        state = 0
        for t in range(10):
            state = rng.choice(3, p=chain[state])
            truth.append(state)
            rows += [(s, t, a, names[rng.choice(3, p=confusion[a, state])]) for a in range(3)]
    result = HMMCrowd().fit(tags_of(*rows, classes=names)).result_
    assert np.abs(result.confusion - confusion).max() < 0.06
    assert np.abs(result.transition[:-1] - chain).max() < 0.06
    votes = result.votes.votes
    single = np.mean([votes.label[votes.annotator == 0] == truth])
    assert np.mean(result.path == truth) > single


def test_spans_by_hand_and_by_arrays_agree():
    rng = np.random.default_rng(1)
    classes = np.array(["O", "B-A", "I-A", "B-B", "I-B"], object)
    scheme = Tags.of(classes, bio=True)
    for _ in range(50):
        lengths = rng.integers(0, 6, 4)
        pointer = np.concatenate([[0], np.cumsum(lengths)])
        path = rng.integers(0, 5, pointer[-1])
        expected = [
            (pointer[s] + a, pointer[s] + b, kind)
            for s in range(4)
            for a, b, kind in spans_by_hand(classes[path[pointer[s] : pointer[s + 1]]].tolist())
        ]
        got = scheme.spans(path, first_tokens(pointer))
        assert list(zip(got.start, got.end, [scheme.types[k] for k in got.kind], strict=True)) == expected


def test_annotators_are_scored_by_whole_spans():
    model = TokenMajority().fit(
        tags_of(
            *[(1, t, who, tag) for who in "abc" for t, tag in enumerate(["B-P", "I-P", "O", "B-L"])],
            *[(1, t, "d", tag) for t, tag in enumerate(["B-P", "O", "O", "B-L"])],
            (2, 0, "a", "O"),
        )
    )
    frame = model.annotators_frame()
    d = frame.row(by_predicate=pl.col("annotator") == "d", named=True)
    assert (d["n_votes"], d["n_spans"], d["precision"], d["recall"], d["f1"]) == (4, 2, 0.5, 0.5, 0.5)
    assert frame["annotator"].to_list() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("method", EVERY)
@pytest.mark.parametrize(
    "tags",
    [
        tags_of((1, 1, "x", "O")),
        tags_of((1, 1, "x", "B-P")),
        tags_of((1, 1, "x", "I-P"), (1, 2, "x", "I-P")),
        tags_of((1, 1, "x", "B-P"), (1, 2, "x", None), (1, 3, "x", "?"), (2, 1, "x", "-")),
        tags_of(("sätze", 1, "änn", "B-ÖRT"), ("sätze", 2, "änn", "I-ÖRT"), ("sätze", 1, "bob", "O")),
        tags_of((1, 1, "x", "B-P"), (1, 1, "y", "O")),
    ],
    ids=["one O", "one B", "I without B", "missing", "unicode", "tie"],
)
def test_odd_shapes_give_a_result(method, tags):
    model = method()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(tags)
    assert model.items_frame().height == tags.n_tokens
    assert np.isfinite(model.posterior_).all()
    assert model.spans_.columns == ["sequence", "start", "end", "type", "confidence"]
    assert model.annotators_frame().height == tags.votes.n_annotators


def test_the_same_tags_give_the_same_bits_in_any_order_of_rows():
    tags, _ = simulate_tags(10, 4, random_state=2)
    frame = tags.to_frame()
    again = TokenVotes.from_frame(frame.sample(fraction=1.0, shuffle=True, seed=1), classes=tags.votes.classes.tolist())
    assert (BSC().fit(tags).posterior_ == BSC().fit(again).posterior_).all()


def test_tags_that_are_no_bio_need_bio_off():
    tags = tags_of((1, 1, "x", "NOUN"), (1, 2, "x", "VERB"), (1, 1, "y", "NOUN"))
    with pytest.raises(InputError, match="'NOUN' is none of O, B-TYPE and I-TYPE"):
        BSC().fit(tags)
    model = BSC(bio=False).fit(tags)
    assert model.labels_.tolist() == ["NOUN", "VERB"]
    assert model.spans_.height == 0


def test_reading_a_result_before_a_fit_says_so():
    with pytest.raises(NotFittedError):
        _ = make("bsc").spans_


def test_too_few_iterations_warn():
    with pytest.warns(ConvergenceWarning):
        assert not HMMCrowd(max_iter=1).fit(TINY).converged_


@pytest.mark.slow
def test_real_entities_are_found_better_than_by_majority(shared_data):
    folder = shared_data / "ner_mturk"
    names = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-MISC", "I-MISC"]
    tokens = pl.read_csv(folder / "tokens.csv").filter(pl.col("sentence") < 300)
    rows = pl.read_csv(folder / "annotations.csv.gz").join(tokens, on="item")
    label = pl.Series(names)[rows["label"].to_numpy()]
    tags = TokenVotes.from_arrays(rows["sentence"], rows["position"], rows["annotator"], label, classes=names)
    truth = pl.read_csv(folder / "truth.csv").join(tokens, on="item").sort("sentence", "position")["label"].to_numpy()
    f1 = {}
    for model in (TokenMajority(), BSC(tol=1e-5)):
        wanted = Tags.of(tags.votes.classes, bio=True).spans(truth, first_tokens(tags.sequence_ptr))
        f1[model.name] = span_scores(model.fit(tags).result_.spans, wanted)["f1"]
    assert f1["bsc"] > f1["token-majority"] + 0.05
