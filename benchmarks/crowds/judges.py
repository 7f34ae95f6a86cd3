"""Panels of simulated judges with known truth: labels, what panels are said to be worth, and families that are found.

    python -m benchmarks run judges [--seeds 10]

Judges of a family give its hidden answer or one of their own; families differ in size, skill and how much they share. In one
world the members of families are models with three prompts each. Four tables: labels of methods beside each other; whether the
stated accuracy of a panel is that on fresh items, and whether the cheapest panel for a target reaches it; whether the number of
human votes is right; how often families are found, and found where there are none. No fit sees a true label. Nothing was
settled on these seeds. Runs are kept in benchmarks/records.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass

import numpy as np

import crowdwise
import crowdwise.errors
from benchmarks.declaration import Benchmark
from benchmarks.page import interval, provenance, put, table
from benchmarks.records import Records
from crowdwise.data.annotations import Annotations
from crowdwise.trust.crowd.dependence import find, rooted
from crowdwise.trust.judges import Families, Findings, JudgeModel, Panels, examine, in_human_votes
from crowdwise.trust.metrics import accuracy, ece, log_loss

BENCHMARK = Benchmark(
    "Are labels and stated worth of panels of judges right where families share errors?",
    sections=("judges",),
    renders=("",),
    quick="--seeds 1",
    small={"MOST": 1, "N_ITEMS": 30, "FRESH": 50, "METHODS": ("majority", "consensus")},
    leaves_out=("alarms",),
)

FIRST_SEED, N_ITEMS, FRESH, TARGET = 12000, 300, 5000, 0.9
KEPT = Records("judges")
METHODS = ("majority", "dawid-skene", "ebcc", "consensus")


@dataclass(frozen=True)
class World:
    """Judges with known ways to answer: sizes of families, how often members copy, and between which shares they are right."""

    n_classes: int
    families: tuple[int, ...]
    copies: tuple[float, float]
    right: tuple[float, float]
    own: tuple[float, float]
    alone: int = 0
    people: int = 0
    hard: float = 0.0
    prompts: int = 1

    def drawn(self, seed: int) -> Drawn:
        """A panel with skills and prices."""
        rng = np.random.default_rng(seed)
        n_judges = sum(self.families) + self.alone + self.people
        code = np.concatenate([np.repeat(np.arange(len(self.families)), self.families), np.full(self.alone + self.people, -1)])
        right_a = rng.uniform(*self.own, size=n_judges)
        right_a[code < 0] = rng.uniform(0.7, 0.85, size=(code < 0).sum())
        person = np.arange(n_judges) >= n_judges - self.people
        right_a[person] = rng.uniform(0.8, 0.9, size=self.people)
        copies = np.where(code >= 0, rng.uniform(*self.copies, size=n_judges), 0.0)
        price = np.where(person, 20.0, np.exp(rng.normal(0, 1, size=n_judges)))
        models = rng.uniform(*self.right, size=len(self.families)), right_a, copies
        one = np.repeat(np.arange(n_judges), np.where(code >= 0, self.prompts, 1))
        return Drawn(self, code, *models, price[one], person[one], one)


@dataclass(frozen=True, eq=False)
class Drawn:
    """One panel."""

    world: World
    code: np.ndarray
    right_f: np.ndarray
    right_a: np.ndarray
    copies: np.ndarray
    price: np.ndarray
    person: np.ndarray
    # Of every judge the model that it is a prompt of, which is the judge itself where models have one prompt.
    model_of: np.ndarray

    @property
    def family(self) -> np.ndarray:
        """Of every judge; -1 for those who stand alone."""
        return self.code[self.model_of]

    @property
    def groups(self) -> np.ndarray:
        """Models of several prompts, and families, [L, A]; -1 for those who stand alone."""
        models = np.where(self.family >= 0, self.model_of, -1)
        return np.stack([models, self.family]) if self.world.prompts > 1 else self.family[None]

    def answers(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Answers of all, [n, A], and the truth."""
        k = self.world.n_classes
        truth = rng.integers(k, size=n)
        # On hard items everybody's chance to be right is halfway to guessing.
        ease = np.where(rng.random(n) < self.world.hard, 0.5, 1.0)

        def said(right: float) -> np.ndarray:
            wrong = (truth + rng.integers(1, k, size=n)) % k
            return np.where(rng.random(n) < 1 / k + ease * (right - 1 / k), truth, wrong)

        shared = [said(right) for right in self.right_f]
        own = [said(right) for right in self.right_a]
        copied = rng.random((len(self.code), n)) < self.copies[:, None]
        seen = [np.where(copied[a], shared[self.code[a]], own[a]) if self.code[a] >= 0 else own[a]
                for a in range(len(self.code))]  # fmt: skip
        # Prompts of one model say what it saw, nineteen times in twenty.
        prompts = [seen[a] if self.world.prompts == 1 or self.code[a] < 0
                   else np.where(rng.random(n) < 0.95, seen[a], said(0.6)) for a in self.model_of]  # fmt: skip
        return np.stack(prompts, axis=1), truth

    def model(self) -> JudgeModel | None:
        """The same judges as a model: what the fit should find."""
        k = self.world.n_classes

        def matrix(right: float) -> np.ndarray:
            wrong = (1 - right) / (k - 1)
            return np.full((k, k), wrong) + (right - wrong) * np.eye(k)

        if self.world.prompts > 1:
            return None
        family = voices(self.code)
        shared = np.stack([matrix(right) for right in [*self.right_f, *self.right_a[self.code < 0]]])
        own = np.stack([matrix(right) for right in self.right_a])
        # Hard items are a world of their own, whose true panels are not enumerated.
        easy = np.concatenate([np.full(k, 1 / k), np.zeros(k)])
        return JudgeModel.in_families(easy, family, self.copies, np.tile(shared, (1, 2, 1)), np.tile(own, (1, 2, 1)))


WORLDS = {
    "7 judges, 3 share errors": World(3, (3,), (0.9, 0.95), (0.7, 0.8), (0.33, 0.34), alone=4),
    "9 judges in 3 families": World(2, (3, 3, 3), (0.6, 0.8), (0.7, 0.85), (0.65, 0.85)),
    "3 models at 3 temperatures": World(3, (3, 3, 3), (0.85, 0.95), (0.65, 0.85), (0.4, 0.6)),
    "2 families of 2 models with 3 prompts": World(3, (2, 2), (0.7, 0.8), (0.65, 0.8), (0.7, 0.8), alone=2, prompts=3),
    "2 families of 3, 3 people": World(3, (3, 3), (0.7, 0.9), (0.7, 0.85), (0.6, 0.8), people=3),
    "7 independent judges": World(3, (), (0, 0), (0, 0), (0, 0), alone=7),
    "7 independent judges, 3 in 10 items hard": World(3, (), (0, 0), (0, 0), (0, 0), alone=7, hard=0.3),
}


def voices(code: np.ndarray) -> np.ndarray:
    """A family of their own for those who have none."""
    family, alone = code.copy(), code < 0
    family[alone] = code.max(initial=-1) + 1 + np.arange(alone.sum())
    return family


def families_of(votes: Annotations, codes: np.ndarray, person: np.ndarray) -> Families:
    """Families by the last row, groups within them by the others."""
    *inner, family = (voices(code) for code in np.atleast_2d(codes))
    unnamed = [""] * votes.n_annotators
    return Families(family, unnamed, person, tuple(inner), tuple(unnamed for _ in inner))


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seeds", type=int, default=10)
    seeds = arguments.parse_args().seeds
    warnings.simplefilter("ignore", crowdwise.errors.CrowdwiseWarning)
    worlds = list(WORLDS.items())[:MOST]
    runs = {name: [kept(name, world, FIRST_SEED + s) for s in range(seeds)] for name, world in worlds}
    parts = [labels(runs), panels(runs), human(runs), found(runs), alarms()]
    put("judges", "\n".join([provenance(f"python -m benchmarks run judges --seeds {seeds}", KEPT), *parts]))


def kept(name: str, world: World, seed: int) -> dict[str, float]:
    """A run that is in the records, or is measured and goes there."""
    return KEPT.once(f"{name} | {seed}", lambda: measured(world.drawn(seed), seed))


def measured(panel: Drawn, seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed + 10**6)
    answers, truth = panel.answers(N_ITEMS, rng)
    votes = Annotations.from_matrix(answers)
    run: dict[str, float] = {}

    def keep(name: str, posterior: np.ndarray) -> None:
        run[f"{name} accuracy"], run[f"{name} loss"] = accuracy(posterior, truth), log_loss(posterior, truth)
        run[f"{name} ece"] = ece(posterior, truth)

    fits = {name: crowdwise.make(name).fit(votes).result_ for name in METHODS}
    for name, fit in fits.items():
        keep(name, fit.posterior)
    # As the command does: people are relied on.
    people = np.flatnonzero(panel.person).tolist()
    seen = rooted(fits["consensus"], people) if people else find(votes)
    code = seen.readings[0].code if seen else np.full(votes.n_annotators, -1)
    run["exact"] = float(pairs(code) == pairs(panel.family))
    run["none"] = float(not seen)
    looks = {"given": panel.groups, "found": code}
    if panel.world.prompts > 1:
        looks |= {"families alone": panel.groups[-1], "models alone": panel.groups[0]}
    elif run["exact"]:
        looks.pop("found")
    for name, groups in looks.items():
        who = families_of(votes, groups, panel.person)
        fit = crowdwise.make("consensus").fit(who.fused(votes)).result_
        keep(f"families {name}", fit.posterior)
        looked = examine(votes, who, fit.model_posterior, price=panel.price, target=TARGET)
        keep(f"model, {name}", looked.posterior)
        run |= {f"{name} {key}": value for key, value in stated(looked, votes, panel, rng).items()}
    if "found" not in looks:
        run |= {key.replace("given", "found"): value for key, value in run.items() if "given" in key}
    return run


def pairs(code: np.ndarray) -> set[tuple[int, int]]:
    return {(i, j) for i in range(len(code)) for j in range(i) if code[i] == code[j] >= 0}


def stated(looked: Findings, votes: Annotations, panel: Drawn, rng: np.random.Generator) -> dict[str, float]:
    """What is said of panels beside what happens on fresh items."""
    answers, truth = panel.answers(FRESH, rng)
    fresh = Annotations.from_matrix(answers)
    names, true = votes.annotators.astype(str).tolist(), panel.model()
    run: dict[str, float] = {}
    for row in looked.panels.iter_rows(named=True):
        if row["n_people"] or not (row["panel"] in ("all judges", "best 3") or row["panel"].startswith("cheapest for")):
            continue
        what = "cheapest" if row["panel"].startswith("cheapest") else row["panel"]
        what = "sure" if row["panel"].endswith("with a margin") else what
        members = np.array([names.index(name) for name in row["judges"].split(", ")])
        said = looked.model.posterior(fresh.take_votes(np.isin(fresh.annotator, members)))
        run |= {f"{what} stated": row["accuracy"], f"{what} fresh": accuracy(said, truth), f"{what} price": row["price"]}
        run[f"{what} low"] = row["accuracy_low"]
        # It has no row of its own where it is the cheapest anyway.
        if what == "cheapest" and row["accuracy_low"] >= TARGET:
            run |= {f"sure {key}": run[f"{what} {key}"] for key in ("stated", "fresh", "price", "low")}
        if row["human_votes"] is not None and true is not None:
            person = panel.right_a[panel.person].mean()
            wrong = (1 - person) / (panel.world.n_classes - 1)
            matrix = np.full((panel.world.n_classes,) * 2, wrong) + (person - wrong) * np.eye(panel.world.n_classes)
            run[f"{what} votes stated"] = row["human_votes"]
            run[f"{what} votes true"] = in_human_votes(run[f"{what} fresh"], true.prior_k, matrix)
            run[f"{what} by people"] = by_people(row["human_votes"], person, panel.world.n_classes, rng)
    if true is None or panel.world.hard:
        return run
    best = Panels(true.of(np.flatnonzero(~panel.person)), panel.price[~panel.person]).cheapest(TARGET)
    for what in ("cheapest", "sure"):
        if best is not None and f"{what} price" in run:
            run[f"{what} price over least"] = run[f"{what} price"] / best.price
    return run


def by_people(n: float, right: float, n_classes: int, rng: np.random.Generator) -> float:
    """The accuracy of n people, between two whole numbers by a straight line; two people are as good as one."""
    if not np.isfinite(n):
        return np.nan
    low, high = int(np.floor(n)), int(np.ceil(n))
    first = simulated(low, right, n_classes, rng)
    return first + (n - low) * (simulated(high, right, n_classes, rng) - first) if high > low else first


def simulated(n: int, right: float, n_classes: int, rng: np.random.Generator) -> float:
    """How often the plurality of n independent people is right, ties by lot."""
    truth = rng.integers(n_classes, size=FRESH * 4)
    counts = rng.random((len(truth), n_classes)) * 1e-6
    for _ in range(n):
        wrong = (truth + rng.integers(1, n_classes, size=len(truth))) % n_classes
        said = np.where(rng.random(len(truth)) < right, truth, wrong)
        counts[np.arange(len(truth)), said] += 1
    return float((counts.argmax(axis=1) == truth).mean())


# All worlds; a quick run has one.
MOST: int | None = None
Runs = dict[str, list[dict[str, float]]]


def labels(runs: Runs) -> str:
    ways = [*METHODS, "families given", "families found", "model, given", "model, found"]
    alone = ["families families alone", "families models alone", "model, families alone", "model, models alone"]
    text = [
        f"\n**Labels**, {N_ITEMS} items that everybody judges. *Families given, found*: consensus with each family as one "
        "annotator, as `crowdwise judges` labels. *Model*: the posterior of the model by which panels are weighed.\n"
    ]
    for title, key, scale, digits in (
        ("Accuracy, percent", "accuracy", 100, 1),
        ("Log-loss", "loss", 1, 3),
        ("Calibration error (ECE), percent", "ece", 100, 1),
    ):
        rows = []
        for name, of in runs.items():
            rows.append([name, *(interval([run[f"{way} {key}"] for run in of], scale, digits) for way in ways)])
            if f"{alone[0]} {key}" in of[0]:
                one = [interval([run[f"{way} {key}"] for run in of], scale, digits) for way in alone]
                names = ("families without their models", "models without their families")
                rows += [[f"the same, {what}", *["-"] * 4, one[k], "-", one[2 + k], "-"] for k, what in enumerate(names)]
        text.append(f"\n{title}.\n\n{table(['panel', *ways], rows)}\n")
    return "\n".join(text)


def percent(of: list[dict[str, float]], key: str) -> str:
    return interval([run[key] for run in of], 100, 1) if of else "-"


def panels(runs: Runs) -> str:
    header = ["panel", "families", "all: stated", "all: fresh", "below its low end", "best 3: stated", "best 3: fresh"]
    header += ["below its low end"]
    rows, aimed = [], []
    totals = {what: np.zeros(4, int) for what in ("cheapest", "sure")}
    for name, of in runs.items():
        for how in ("given", "found", "families alone", "models alone"):
            if f"{how} all judges stated" not in of[0]:
                continue
            row, aim = [name, how], [name, how]
            for what in ("all judges", "best 3"):
                row += [percent(of, f"{how} {what} {key}") for key in ("stated", "fresh")]
                row.append(str(sum(run[f"{how} {what} fresh"] < run[f"{how} {what} low"] for run in of)))
            for what, total in totals.items():
                named = [run for run in of if f"{how} {what} stated" in run]
                fresh = np.array([run[f"{how} {what} fresh"] for run in named])
                below = sum(run[f"{how} {what} fresh"] < run[f"{how} {what} low"] for run in named)
                counts = [len(named), int((fresh < TARGET).sum()), int((fresh < TARGET - 0.01).sum()), below]
                over = [run[f"{how} {what} price over least"] for run in named if f"{how} {what} price over least" in run]
                aim += [f"{len(named)} of {len(of)}", *(percent(named, f"{how} {what} {key}") for key in ("stated", "fresh"))]
                aim += [str(counts[2]), interval(over, 1, 2) if over else "-"]
                total += np.array(counts) * (how == "given")
            rows.append(row)
            aimed.append(aim)
    said = [f"{n} panels, {short} below the target, {point} by more than a point, {below} below their own low end"
            for n, short, point, below in (total.tolist() for total in totals.values())]  # fmt: skip
    columns = ["named", "stated", "fresh", "a point short", "price over least"]
    return (
        f"\n**Panels**, accuracy in percent: as stated from {N_ITEMS} items without any true label, and of the panel's labels "
        f"on {FRESH:,} fresh items; in how many runs these are below the low end, which nine of ten draws reach.\n\n"
        f"{table(header, rows)}\n\n"
        f"**The cheapest panel for {TARGET:.0%}**, that is expected to reach it, and *with a margin*, in nine of ten "
        "drawn sets of votes: in how many runs one is named, its accuracy as stated and on fresh items, how many are more than "
        "a point short of the target, and their price over that of the cheapest panel that truly reaches it, where one does. "
        f"In all runs with families given, expected: {said[0]}; with a margin: {said[1]}.\n\n"
        f"{table(['panel', 'families', *columns, *(f'margin: {column}' for column in columns)], aimed)}\n"
    )


def human(runs: Runs) -> str:
    header = ["panel", "judges", "votes stated", "votes true", "fresh accuracy", "as many people, simulated"]
    measures = (("votes stated", 1, 2), ("votes true", 1, 2), ("fresh", 100, 1), ("by people", 100, 1))
    rows = []
    for name, of in runs.items():
        for what in ("best 3", "all judges"):
            kept = [run for run in of if np.isfinite(run.get(f"given {what} votes stated", np.nan))]
            kept = [run for run in kept if np.isfinite(run[f"given {what} votes true"])]
            if kept:
                shown = [
                    interval([run[f"given {what} {key}"] for run in kept], scale, digits) for key, scale, digits in measures
                ]
                rows.append([name, what, *shown])
    return (
        "\n**In human votes**, families given: the stated number; that of the panel's accuracy on fresh items with the true "
        "accuracy of people; and, in percent, the panel on fresh items beside the plurality of as many simulated people.\n\n"
        f"{table(header, rows)}\n"
    )


def found(runs: Runs) -> str:
    rows = []
    for name, of in runs.items():
        gain = [run["families found accuracy"] - run["consensus accuracy"] for run in of]
        seen = [f"{sum(run[key] for run in of):.0f} of {len(of)}" for key in ("exact", "none")]
        rows.append([name, *seen, interval(gain, 100, 1), f"{100 * min(gain):.1f}"])
    header = ["panel", "found exactly", "nothing found", "gain in accuracy", "worst run"]
    about = "and what counting them as one brings over plain consensus, in points."
    return f"\n**Families found**, {about}\n\n{table(header, rows)}\n"


@KEPT.each
def fired(n_judges: int, hard: float, n_items: int, seeds: int) -> int:
    """In how many panels of independent judges, as many with two classes as with three, a family is found that is none."""
    worlds = [World(k, (), (0, 0), (0, 0), (0, 0), alone=n_judges, hard=hard) for k in (2, 3)]
    drawn = [world.drawn(FIRST_SEED + s) for world in worlds for s in range(seeds)]
    panels = [one.answers(n_items, np.random.default_rng(s))[0] for s, one in enumerate(drawn)]
    return sum(bool(find(Annotations.from_matrix(answers))) for answers in panels)


def alarms(seeds: int = 20) -> str:
    """Panels of independent judges of many sizes."""
    rows, total, wrong = [], 0, 0
    for n_judges in (3, 5, 7, 10):
        for hard in (0.0, 0.3):
            counts = [fired(n_judges, hard, n_items, seeds) for n_items in (50, 200, 600)]
            total, wrong = total + 2 * seeds * len(counts), wrong + sum(counts)
            rows.append([f"{n_judges} judges{', 3 in 10 items hard' if hard else ''}", *map(str, counts)])
    return (
        f"\n**Families found where there are none**: {wrong} of {total} panels of independent judges with two or three "
        f"classes; of {2 * seeds} in each cell.\n\n{table(['panel', '50 items', '200 items', '600 items'], rows)}\n"
    )
