"""Small data sets that come with the library: one published table and two simulated campaigns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import FAMILIES, Simulation, simulate
from crowdwise.errors import InputError, did_you_mean

__all__ = ["DATASETS", "Dataset", "crowd_digits", "dawid_skene_1979", "demo", "load"]

# One word per patient: three ratings by anaesthetist 1, then one each by anaesthetists 2 to 5.
_DAWID_SKENE = """
1111111 3334334 1122122 2223121 2223222 2223322 1222111 3333433 2222223 2322223 4444444 2223343
1111111 2223212 1211111 1112111 1111111 1111111 2222221 2221322 2222222 2222221 2223222 2212222
1111111 1111111 2322222 1111111 1111111 1121121 1111111 3333233 1111111 2222222 2223232 4334343
2212232 2323233 3333432 1111111 1111111 1212111 2322222 1211111 2222222
"""


def dawid_skene_1979() -> Annotations:
    """Return Table 1 of Dawid & Skene (1979): fitness of 45 patients for anaesthesia, on a scale of 1 to 4.

    Five anaesthetists; the first rated every patient three times. The truth is unknown.

    References
    ----------
    Dawid & Skene (1979), Maximum likelihood estimation of observer error-rates using the EM
    algorithm, Applied Statistics 28(1), 20-28.

    Examples
    --------
    >>> dawid_skene_1979()
    Annotations(315 votes: 45 items, 5 annotators, 4 classes)
    """
    words = _DAWID_SKENE.split()
    return Annotations.from_arrays(
        item=np.repeat(np.arange(1, len(words) + 1), 7),
        annotator=np.tile([1, 1, 1, 2, 3, 4, 5], len(words)),
        label=np.array([int(digit) for word in words for digit in word]),
    )


def crowd_digits(
    annotators: ArrayLike | str | dict[str, float] | None = None,
    n_annotators: int = 5,
    votes_per_item: int | tuple[int, int] = 5,
    *,
    random_state: int | None = 0,
) -> tuple[NDArray[np.float64], Annotations, NDArray[np.int16]]:
    """Return scikit-learn's 8 x 8 digits with simulated annotators.

    Parameters
    ----------
    annotators, n_annotators, votes_per_item, random_state
        As in `crowdwise.data.simulate.simulate`. By default the five annotators of the MNIST experiment
        of the SVGPCR paper: right with probability 0.95, 0.9 and 0.8, a uniform spammer, and
        one who answers the next digit with probability 0.9, errors being spread at random.

    Returns
    -------
    X : [1797, 64]
        Pixels between 0 and 1.
    votes : Annotations
        Classes 0 to 9; item n is row n of X.
    truth : [1797]
        The digit.

    Examples
    --------
    >>> X, votes, truth = crowd_digits()
    >>> X.shape, votes
    ((1797, 64), Annotations(8985 votes: 1797 items, 5 annotators, 10 classes))
    """
    from sklearn.datasets import load_digits

    pixels, truth = load_digits(return_X_y=True)
    simulation = simulate(
        n_annotators=n_annotators,
        votes_per_item=votes_per_item,
        annotators=_five_annotators(random_state) if annotators is None else annotators,
        classes=range(10),
        truth=truth,
        random_state=random_state,
    )
    return np.asarray(pixels, float) / 16, simulation.votes, simulation.truth


def demo() -> Simulation:
    """Return a small fixed campaign: 120 photos of four animals, 12 annotators, five votes on each photo.

    Annotators 1 to 9 are honest and of different skill, 10 answers at random, 11 answers one
    class whatever the photo, and 12 is an adversary who mostly answers the next class.

    Examples
    --------
    >>> demo().votes
    Annotations(600 votes: 120 items, 12 annotators, 4 classes)
    >>> demo().kind[9:].tolist()
    ['uniform-spammer', 'constant-spammer', 'cyclic-adversary']
    """
    simulation = simulate(
        n_items=120,
        n_annotators=12,
        votes_per_item=5,
        annotators={"dirichlet": 9 / 12, "uniform-spammer": 1 / 12, "constant-spammer": 1 / 12, "cyclic-adversary": 1 / 12},
        options={"dirichlet": {"diagonal": 6.0, "off_diagonal": 0.5}},
        class_prior=[0.3, 0.3, 0.25, 0.15],
        classes=["bird", "cat", "dog", "fox"],
        random_state=1979,
    )
    photos = np.array([f"photo-{i:03d}" for i in range(1, 121)], dtype=object)
    return replace(simulation, votes=replace(simulation.votes, items=photos))


class Dataset(NamedTuple):
    """A loader of votes and one line about them."""

    votes: Callable[[], Annotations]
    description: str


DATASETS: dict[str, Dataset] = {
    "dawid-skene-1979": Dataset(dawid_skene_1979, "45 patients rated by 5 anaesthetists, 4 classes; the table of 1979"),
    "crowd-digits": Dataset(lambda: crowd_digits()[1], "1797 images of digits, 5 simulated annotators, 10 classes"),
    "demo": Dataset(
        lambda: demo().votes, "120 photos of animals, 12 simulated annotators, 4 classes; two spammers, an adversary"
    ),
}


def load(name: str) -> Annotations:
    """Return the votes of a data set by its name in `DATASETS`.

    Examples
    --------
    >>> load("demo").classes.tolist()
    ['bird', 'cat', 'dog', 'fox']
    """
    if name not in DATASETS:
        raise InputError(f"no data set {name!r}; there are {', '.join(DATASETS)}{did_you_mean(name, list(DATASETS))}")
    return DATASETS[name].votes()


def _five_annotators(random_state: int | None) -> NDArray[Any]:
    """Return [5, 10, 10]: as the SVGPCR paper has them, errors spread by a flat Dirichlet over the other classes."""
    # A stream of its own: the votes are drawn from this seed too.
    rng = np.random.default_rng(np.random.SeedSequence(random_state).spawn(1)[0])
    confusion_akl = np.zeros((5, 10, 10))
    for a, (share, step) in enumerate([(0.95, 0), (0.9, 0), (0.8, 0), (0.0, 0), (0.9, 1)]):
        for k in range(10):
            favourite = (k + step) % 10
            confusion_akl[a, k] = np.insert((1 - share) * rng.dirichlet(np.ones(9)), favourite, share)
    confusion_akl[3] = FAMILIES["uniform-spammer"](rng, 1, 10)[0]
    return confusion_akl
