"""A Python example for every registered method, made from what its line in the registry says; the tests run all of them.

Every example ends with `right`, how near the result is to the truth that was simulated, so that a test can hold it to more than
having run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

__all__ = ["call_of", "example_of"]

# Enough for a toy, so that every example takes a moment; a comment on the page says so.
FEW = {"inducing": 20, "measured": 20}
FEW_OF = {
    **{name: {"epochs": 30} for name in ("dalc", "aggnet", "mbem", "deep-bp", "annot-mix")},
    "auto": {"methods": ["majority", "one-coin", "dawid-skene"]},
    "auto-classifier": {"methods": ["two-stage", "raykar"]},
    "crowd-clustering": {"clusters": 3},
    "weighted-mean": {"floor": 0.1},
    "svgpcr": {"likelihood": "softmax"},
    "svgpcr-nf": {"likelihood": "softmax", "layers": 2, "epochs": 20},
    "gpnetcr": {"likelihood": "softmax", "epochs": 15},
    "svgp": {"likelihood": "softmax"},
}

VOTES = """\
import crowdwise

crowd = crowdwise.datasets.demo()        # photos; two of 12 annotators are spammers
votes, truth = crowd.votes, crowd.votes.classes[crowd.truth]
"""
TWO_CLASSES = """\
import crowdwise
from crowdwise.data.simulate import simulate

crowd = simulate(150, n_annotators=12, classes=["no", "yes"], random_state=0)
votes, truth = crowd.votes, crowd.votes.classes[crowd.truth]
"""
GRADES = """\
import numpy as np

import crowdwise

rng = np.random.default_rng(0)
grades = np.array(["bad", "fair", "good"], dtype=object)  # classes in their order
item, annotator = np.repeat(np.arange(90), 4), np.tile(np.arange(8), 45)
place = rng.uniform(0, 3, 90)
seen = np.clip(place[item] + 0.4 * rng.normal(size=360), 0, 2.9).astype(int)
votes = crowdwise.Annotations.from_arrays(item, annotator, grades[seen], classes=grades)
truth = grades[place.astype(int)]
"""
GROUPS = """\
groups = {{item: ("north", "south")[n % 2] for n, item in enumerate(votes.items)}}
votes = votes.with_groups(groups)
"""
LABELS = """\
model = crowdwise.{call}.fit(votes)
print(model.items_frame().head(3))       # label and confidence of every item
print(model.annotators_frame().head(3))  # what is learned of annotators
right = (model.labels_ == truth).mean()
print(f"{{right:.0%}} of the labels are right")
"""
ONLINE = """\
model = crowdwise.{call}.fit(votes[:100])
model.update(votes[100:])                # the next votes, at the cost of these alone
print(model.items_frame().head(3))       # label and confidence of every item
right = (model.labels_ == truth).mean()
print(f"{{right:.0%}} of the labels are right")
"""
ROWS = """\
import numpy as np

import crowdwise
from crowdwise.data.simulate import simulate

rng = np.random.default_rng(0)
truth = rng.integers(0, {classes}, 300)
X = 3 * np.eye({classes})[truth] + rng.normal(size=(300, {classes}))
votes = simulate(truth=truth[:200], classes=range({classes}), n_annotators=8).votes
X_new = X[200:]                                 # rows that nobody voted on
"""
CLASSIFIER = """\
{toy}model = crowdwise.{call}.fit(X[:200], votes)
print(model.predict_proba(X_new[:3]).round(2))  # probabilities of classes
print(model.annotators_frame().head(3))         # what is learned of annotators
right = model.score(X_new, truth[200:])
print(f"{{right:.0%}} of the new rows are right")
"""
VALUES = """\
import numpy as np

import crowdwise
from crowdwise.data.simulate.ratings import simulate_values

drawn = simulate_values(100, 12, per_item=5)  # answers with bias and noise
values, truth = drawn.values, drawn.truth[:, 0]
"""
VALUES_AND_ROWS = (
    VALUES
    + """\
X = truth[:, None] + np.random.default_rng(0).normal(size=(100, 3))
"""
)
NUMBERS = """\
{toy}model = crowdwise.{call}.fit({data})
print(model.items_frame().head(3))       # estimate and interval of every item
print(model.annotators_frame().head(3))  # bias and noise of every annotator
right = np.corrcoef(model.estimate_[:, 0], truth)[0, 1]
print(f"correlation with the truth: {{right:.2f}}")
"""
COMPARISONS = """\
import numpy as np

import crowdwise
from crowdwise.data.simulate.comparisons import simulate_comparisons

X = np.random.default_rng(0).normal(size=(30, 2))
score = 2 * X[:, 0] - X[:, 1]
drawn = simulate_comparisons(30, 900, 8, spammers=1 / 8, score=score)
votes = drawn.comparisons
"""
RANKING = """\
{toy}model = crowdwise.{call}.fit({data})
print(model.items_frame().head(3))       # score and rank of every item
print(model.annotators_frame().head(3))  # how reliable every annotator is
right = np.corrcoef(model.scores_, score)[0, 1]
print(f"correlation with the true scores: {{right:.2f}}")
"""
PAIRS = """\
import numpy as np

import crowdwise
from crowdwise.data.simulate.similarities import simulate_pairs
from crowdwise.methods.clusters.agreement import hungarian_accuracy

truth = np.arange(60) % 3
X = 3 * np.eye(3)[truth] + np.random.default_rng(0).normal(size=(60, 3))
votes, hit, false_alarm = simulate_pairs(truth, n_answers=1500, n_annotators=6)
"""
CLUSTERS = """\
{toy}model = crowdwise.{call}.fit({data})
print(model.items_frame().head(3))       # cluster and membership of every item
print(model.annotators_frame().head(3))  # hit rate and false-alarm rate of every annotator
right = hungarian_accuracy(model.clusters_, truth)
print(f"{{right:.0%}} of the items are in the right cluster")
"""
TAGS = """\
import crowdwise
from crowdwise.data.simulate.tokens import simulate_tags

tags, truth = simulate_tags(n_sequences=60, n_annotators=6, random_state=1)
model = crowdwise.{call}.fit(tags)
print(model.spans_.head(3))              # spans with their confidence
print(model.annotators_frame().head(3))  # what is learned of annotators
right = (model.labels_ == truth).mean()
print(f"{{right:.0%}} of the tags are right")
"""
SETS = """\
import numpy as np

import crowdwise

rng = np.random.default_rng(0)
names = ["beach", "car", "sea", "street"]
truth = [{{"beach", "sea"}}, {{"street", "car"}}, {{"street"}}] * 40
item, annotator = np.repeat(np.arange(120), 4), np.tile(np.arange(10), 48)
said = []
for n in item:
    chosen = [name for name in names if rng.random() < (0.8 if name in truth[n] else 0.1)]
    said.append("|".join(chosen) or "none")
answers = crowdwise.LabelSets.from_arrays(item, annotator, said)
model = crowdwise.{call}.fit(answers)
print(model.items_frame().head(3))       # labels of every item, and how sure they are
print(model.annotators_frame().head(3))  # what is learned of annotators
right = np.mean([found == known for found, known in zip(model.result_.sets, truth)])
print(f"{{right:.0%}} of the sets are right")
"""
PARTIAL = """\
import numpy as np

import crowdwise

rng = np.random.default_rng(0)
names = np.array(["cat", "dog", "fox"], dtype=object)
truth = rng.integers(0, 3, 90)
item, annotator = np.repeat(np.arange(90), 5), np.tile(np.arange(9), 50)
said = np.where(rng.random(450) < 0.75, truth[item], rng.integers(0, 3, 450))
label = names[said]
against = rng.random(450) < 0.3          # "!dog" only says that it is no dog
label[against] = "!" + names[(said[against] + 1) % 3]
votes = crowdwise.Annotations.from_arrays(item, annotator, label)
model = crowdwise.{call}.fit(votes)
print(model.items_frame().head(3))       # label and confidence of every item
right = (model.result_.labels == names[truth]).mean()
print(f"{{right:.0%}} of the labels are right")
"""


def example_of(method: Any) -> str:
    """Python that fits a method to data it simulates; empty where the page itself has to say where edges come from."""
    if method.edges:
        return ""
    few = _few(method)
    blanks = {
        "call": call_of(method, few),
        "classes": 2 if method.binary_only else 3,
        "toy": "# The settings make a toy quick; leave them out on your own data.\n" if few else "",
    }
    return "\n".join(part.format(**blanks, data=_data(method)) for part in _parts(method))


def call_of(method: Any, more: Mapping[str, Any] = MappingProxyType({})) -> str:
    """The class with the settings that a name stands for, and more of them."""
    settings = {name: value for name, value in {**method.settings, **more}.items() if value is not None}
    return f"{method.cls.__name__}({', '.join(f'{name}={_quoted(value)}' for name, value in settings.items())})"


def _quoted(value: Any) -> str:
    return repr(value).replace("'", '"')


def _parts(method: Any) -> list[str]:
    """What comes before the fit, and the fit."""
    groups = [GROUPS] if method.groups else []
    if method.answers == "labels" and method.features:
        return [ROWS, *groups, CLASSIFIER]
    if method.answers == "labels":
        start = TWO_CLASSES if method.binary_only else GRADES if method.ordered else VOTES
        return [start, *groups, ONLINE if method.online else LABELS]
    return {
        "ratings": [VALUES_AND_ROWS if method.features else VALUES, NUMBERS],
        "comparisons": [COMPARISONS, RANKING],
        "similarities": [PAIRS, CLUSTERS],
        "tags": [TAGS],
        "label sets": [SETS],
        "partial labels": [PARTIAL],
    }[method.answers]


def _data(method: Any) -> str:
    data = "values" if method.answers == "ratings" else "votes"
    if not method.features:
        return data
    return f"X, {data}"


def _few(method: Any) -> dict[str, Any]:
    known = {f.name for f in fields(method.cls)}
    return {name: value for name, value in {**FEW, **FEW_OF.get(method.name, {})}.items() if name in known}
