# Cells import where they need something, and end with values to show.
# ruff: noqa: B018, B905, E402, E501

# %% [markdown]
# # From votes to labels
#
# Forty people label six hundred photos, a few of them carelessly. Which labels can be believed, and whom should one ask again?

# %% [markdown]
# ## The votes
#
# `simulate` draws a crowd whose truth is known, so that everything below can be checked. Most annotators are good, some answer at
# random, some always give the same answer, and two mostly name the wrong animal. Your own votes would come from
# `crowdwise.read("votes.csv")`.

# %%
import numpy as np

import crowdwise
from crowdwise.data.simulate import simulate

crowd = simulate(
    600,
    n_annotators=40,
    classes=["bird", "cat", "dog", "fox"],
    votes_per_item=(3, 6),
    annotators={"dirichlet": 0.75, "uniform-spammer": 0.1, "constant-spammer": 0.1, "cyclic-adversary": 0.05},
    options={"dirichlet": {"diagonal": 4.0, "off_diagonal": 0.7}},
    random_state=7,
)
votes, truth = crowd.votes, crowd.votes.classes[crowd.truth]
votes

# %% [markdown]
# ## Counting votes
#
# The majority is the first thing to try. It gives a spammer the vote of an expert.

# %%
majority = crowdwise.make("majority").fit(votes)
print(f"{(majority.labels_ == truth).mean():.1%} of the labels of the majority are right")

# %% [markdown]
# ## Learning whom to trust
#
# `consensus`, the default, fits four small models of annotators and averages them. It sees no true label either.

# %%
model = crowdwise.make("consensus").fit(votes)
print(f"{(model.labels_ == truth).mean():.1%} of the labels of the consensus are right")

# %% [check]
assert (model.labels_ == truth).mean() > (majority.labels_ == truth).mean() + 0.02

# %% [markdown]
# What it has learned of the annotators is a table. The last rows are those to look at.

# %%
people = model.annotators_frame().select("annotator", "n_votes", "accuracy").sort("accuracy", descending=True)
print(people.head(3))
print(people.tail(6))

# %% [check]
worst = set(people["annotator"][-6:].to_list())
bad = {str(name) for name, kind in zip(votes.annotators, crowd.kind) if kind != "dirichlet"}
assert len(worst & bad) >= 5

# %% [markdown]
# A confusion matrix says more than one number: how often somebody gives each label to items of each class. Below are a good
# annotator, one who always says the same, and one who is wrong in a regular way, which is worth as much as being right.

# %%
from crowdwise.report import plot

kinds = list(crowd.kind)
chosen = [votes.annotators[kinds.index(kind)] for kind in ("dirichlet", "constant-spammer", "cyclic-adversary")]
panels = plot.confusions(model.result_, chosen)

# %% [markdown]
# ## How sure?
#
# Every label comes with a confidence. Of labels with a confidence of 80 %, about 80 % should be right. Real annotators share
# mistakes, so the default is more careful than these simulated, independent ones deserve: points lie above the line.

# %%
from matplotlib import pyplot

figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 4), layout="constrained")
plot.reliability(model.result_, crowd.gold, n_bins=6, ax=left)
plot.confidence_histogram(model.result_, ax=right)

# %% [markdown]
# The labels to review are those that are least sure. Reviewing a tenth of them finds far more errors than a random tenth.

# %%
confidence = model.items_frame()["confidence"].to_numpy()
doubtful = np.argsort(confidence)[: len(confidence) // 10]
wrong = model.labels_ != truth
print(f"{wrong[doubtful].sum()} of the {wrong.sum()} wrong labels are among the {len(doubtful)} least sure")

# %% [check]
assert wrong[doubtful].sum() > 3 * wrong.sum() * 0.1

# %% [markdown]
# ## What more votes would bring
#
# Leaving votes out shows how accuracy grows with them, and what a model of annotators is worth at each price.

# %%
curves = {
    name: plot.accuracy_by_votes(votes, crowd.gold, name, per_item=[1, 2, 3, 4], repeats=2)
    for name in ("majority", "consensus")
}
axes = plot.learning_curve(curves)
axes.set_title("Accuracy by votes")

# %% [markdown]
# Next: [choose a method](../howto/choose-a-method.md), [judge your annotators](../howto/judge-annotators.md), or certify the result
# by [an audit](audit.md).
