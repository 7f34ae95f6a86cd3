"""Draw true classes, annotators and votes.

    z_n ~ class_prior,   pi_a ~ a family of annotators,   label of vote (n, a) ~ pi_a[z_n, :]

With `difficulty` > 0 an item has an ease b_n = exp(difficulty * N(0, 1)) and labels follow
pi_a[z_n, :]^b_n, normalised. For two classes and one-coin annotators this is GLAD (Whitehill et
al., 2009) with ability logit(accuracy): P(right) = sigmoid(b_n * ability_a).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import vocabulary_array, vocabulary_series
from crowdwise.data.simulate.design import ACTIVITIES, draw_design
from crowdwise.data.simulate.families import draw_annotators
from crowdwise.errors import SettingError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Confusions = NDArray[np.float64]

__all__ = ["Simulation", "simulate"]


@dataclass(frozen=True, eq=False)
class Simulation:
    """Votes together with everything that produced them.

    Attributes
    ----------
    votes : Annotations
        The votes, without gold: attach it with ``votes.with_gold(simulation.gold)``.
    truth : [N]
        Code of the true class of every item.
    confusion : [A, K, K]
        P(observed l | true k) of every annotator, for items of ease 1; rows sum to one.
    class_prior : [K]
    kind : [A]
        Family of every annotator.
    ease : [N] or None
        b_n of the module's docstring; None without difficulty.
    settings : dict
        The arguments of `simulate` as they were used, fit for JSON.
    """

    votes: Annotations
    truth: NDArray[np.int16]
    confusion: Confusions
    class_prior: NDArray[np.float64]
    kind: NDArray[Any]
    ease: NDArray[np.float64] | None
    settings: dict[str, Any]

    @property
    def gold(self) -> dict[Any, Any]:
        """The true class of every item, both by name."""
        return dict(zip(self.votes.items.tolist(), self.votes.classes[self.truth].tolist(), strict=True))


def simulate(
    n_items: int = 1000,
    n_annotators: int = 50,
    n_classes: int = 3,
    votes_per_item: int | tuple[int, int] = 5,
    annotators: str | Mapping[str, float] | ArrayLike = "dirichlet",
    *,
    options: Mapping[str, Mapping[str, float]] | None = None,
    activity: str = "uniform",
    exponent: float = 1.0,
    difficulty: float = 0.0,
    class_prior: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
    truth: ArrayLike | None = None,
    random_state: int | None = 0,
) -> Simulation:
    """Draw true classes, annotators and votes.

    Parameters
    ----------
    n_items, n_annotators, n_classes : int
    votes_per_item : int or (low, high)
        Votes on every item by different annotators, or the range from which each item's number is
        drawn. Extreme spammers vote on every item besides.
    annotators : str, mapping or [A, K, K]
        A family; a mix such as ``{"one-coin": 0.8, "uniform-spammer": 0.2}``, whose shares sum to
        one and whose annotators are numbered in this order; or the confusion matrices
        themselves, which then fix `n_annotators` and `n_classes`.
    options : mapping
        Settings of families, such as ``{"hammer-spammer": {"gamma": 0.3}}``.
    activity : {"uniform", "power-law", "regular"}
        All annotators equally active; activity proportional to ``rank ** -exponent`` in a random
        ranking; or (nearly) exactly the same number of votes for each annotator.
    exponent : float
        Of the power law.
    difficulty : float
        Spread of the items' log-ease; zero for equally easy items. 1 is GLAD's prior.
    class_prior : [K], optional
        Uniform unless given.
    classes : sequence, optional
        Names of the classes; fixes `n_classes`.
    truth : [N], optional
        Class codes to use instead of drawing them; fixes `n_items`.
    random_state : int or None

    Examples
    --------
    >>> simulation = simulate(n_items=100, n_annotators=10, annotators={"one-coin": 0.8, "constant-spammer": 0.2})
    >>> simulation.votes
    Annotations(500 votes: 100 items, 10 annotators, 3 classes)
    >>> simulation.kind[-2:].tolist()
    ['constant-spammer', 'constant-spammer']
    """
    rng = np.random.default_rng(random_state)
    given_akl = None if isinstance(annotators, str | Mapping) else _checked_confusions(annotators)
    n_classes = n_classes if classes is None else len(classes)
    if given_akl is not None:
        if classes is not None and n_classes != given_akl.shape[1]:
            raise SettingError(f"{n_classes} classes with confusion matrices of {given_akl.shape[1]}")
        n_annotators, n_classes = given_akl.shape[:2]
    n_items = n_items if truth is None else len(np.asarray(truth))
    low, high = (votes_per_item, votes_per_item) if isinstance(votes_per_item, int | np.integer) else votes_per_item
    _check(n_items, n_annotators, n_classes, low, high, activity, exponent, difficulty)
    d_k = _checked_prior(class_prior, n_classes)

    z_n = rng.choice(n_classes, size=n_items, p=d_k).astype(np.int16) if truth is None else _checked_truth(truth, n_classes)
    if given_akl is not None:
        confusion_akl, kind = given_akl, np.full(n_annotators, "given", dtype=object)
    else:
        mix = {annotators: 1.0} if isinstance(annotators, str) else dict(annotators)  # type: ignore[arg-type]
        confusion_akl, kind = draw_annotators(rng, n_annotators, n_classes, mix, options or {})
    item, annotator = draw_design(rng, n_items, kind, low, high, activity, exponent)
    ease_n = np.exp(difficulty * rng.standard_normal(n_items)) if difficulty else None
    uniform_e = _random_numbers(rng, item, (kind == "colluder")[annotator], n_items)
    label = _draw_labels(uniform_e, confusion_akl, annotator, z_n[item], None if ease_n is None else ease_n[item])
    names = [f"class-{k:0{len(str(n_classes - 1))}d}" for k in range(n_classes)] if classes is None else classes
    votes = Annotations.from_codes(
        item,
        annotator,
        label,
        _numbered("item", n_items, 6),
        _numbered("annotator", n_annotators, 2),
        vocabulary_array(vocabulary_series(names, "classes")),
    )
    settings = {
        "n_items": n_items,
        "n_annotators": n_annotators,
        "n_classes": n_classes,
        "votes_per_item": [int(low), int(high)],
        "annotators": "given" if given_akl is not None else mix,
        "options": {name: dict(values) for name, values in (options or {}).items()},
        "activity": activity,
        "exponent": exponent,
        "difficulty": difficulty,
        "random_state": random_state,
    }
    return Simulation(votes, z_n, confusion_akl, d_k, kind, ease_n, settings)


def _random_numbers(
    rng: np.random.Generator, item: NDArray[Any], together: NDArray[np.bool_], n_items: int
) -> NDArray[np.float64]:
    """One per vote; colluders share their item's, so that equal rows give them the same label."""
    uniform, shared = rng.random(len(item)), rng.random(n_items)
    uniform[together] = shared[item[together]]
    return uniform


def _draw_labels(
    uniform_e: NDArray[np.float64],
    confusion_akl: Confusions,
    annotator: NDArray[np.int32],
    truth_e: NDArray[np.int16],
    ease_e: NDArray[np.float64] | None,
) -> NDArray[np.int16]:
    """Invert the distribution function of every vote's row, some votes at a time."""
    label = np.empty(len(uniform_e), np.int16)
    step = max(2**22 // confusion_akl.shape[1], 1)
    for start in range(0, len(label), step):
        part = slice(start, start + step)
        row_el = confusion_akl[annotator[part], truth_e[part]]
        if ease_e is not None:
            # Divided by the largest first, because a high power of a small number underflows.
            row_el = (row_el / row_el.max(axis=1, keepdims=True)) ** ease_e[part, None]
        cumulative_el = np.cumsum(row_el, axis=1)
        # Scaled to end at exactly one: rounding would otherwise reach classes of probability zero.
        label[part] = (uniform_e[part, None] * cumulative_el[:, -1:] >= cumulative_el[:, :-1]).sum(axis=1)
    return label


def _check(
    n_items: int, n_annotators: int, n_classes: int, low: int, high: int, activity: str, exponent: float, difficulty: float
) -> None:
    sizes: dict[str, Any] = {"n_items": n_items, "n_annotators": n_annotators, "n_classes": n_classes}
    for name, value in sizes.items():
        if not isinstance(value, int | np.integer) or value < 1:
            raise SettingError(f"{name} must be a whole number, at least 1, got {value}")
    if not 0 <= low <= high:
        raise SettingError(f"votes_per_item must be a number >= 0 or an increasing pair (low, high), got {(low, high)}")
    if activity not in ACTIVITIES:
        raise SettingError(f"activity must be one of {', '.join(ACTIVITIES)}, got {activity!r}")
    if activity == "regular" and low < high:
        raise SettingError("activity='regular' needs one number of votes per item, not a range")
    if not (np.isfinite([exponent, difficulty]).all() and exponent >= 0 and difficulty >= 0):
        raise SettingError(f"exponent and difficulty must be >= 0, got {exponent} and {difficulty}")


def _checked_prior(class_prior: ArrayLike | None, n_classes: int) -> NDArray[np.float64]:
    if class_prior is None:
        return np.full(n_classes, 1 / n_classes)
    d_k = np.asarray(class_prior, float)
    if d_k.shape != (n_classes,) or not ((d_k >= 0).all() and abs(d_k.sum() - 1) < 1e-6):
        raise SettingError(f"class_prior must be {n_classes} probabilities that sum to one, got {class_prior}")
    return np.asarray(d_k / d_k.sum())


def _checked_confusions(annotators: Any) -> Confusions:
    confusion_akl = np.array(annotators, float)
    if confusion_akl.ndim != 3 or confusion_akl.shape[1] != confusion_akl.shape[2] or confusion_akl.size == 0:
        raise SettingError(
            f"annotators must be a family, a mix or confusions [A, K, K], got an array of shape {confusion_akl.shape}"
        )
    if not ((confusion_akl >= 0).all() and (np.abs(confusion_akl.sum(axis=2) - 1) < 1e-6).all()):
        raise SettingError("rows of the confusions must be >= 0 and sum to one: confusion[annotator, true, observed]")
    return confusion_akl


def _checked_truth(truth: ArrayLike, n_classes: int) -> NDArray[np.int16]:
    z_n = np.asarray(truth)
    if z_n.ndim != 1 or z_n.dtype.kind not in "iu" or (z_n.size and not (z_n.min() >= 0 and z_n.max() < n_classes)):
        raise SettingError(f"truth must be class codes from 0 to {n_classes - 1}, one per item")
    return z_n.astype(np.int16)


def _numbered(prefix: str, size: int, width: int) -> NDArray[Any]:
    # Zero-padded, so that the order of text is the order of numbers.
    width = max(width, len(str(size)))
    return np.array([f"{prefix}-{i:0{width}d}" for i in range(1, size + 1)], dtype=object)
