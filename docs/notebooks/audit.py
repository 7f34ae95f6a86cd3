# Cells import where they need something, and end with values to show.
# ruff: noqa: B905, E402, E501

# %% [markdown]
# # An audit: a few checked labels, a certificate
#
# Votes cannot say how many labels are wrong: people share mistakes, and no model of votes sees that. A few labels that somebody
# checks can, and how many are enough is a matter of statistics.

# %% [markdown]
# ## A crowd with a blind spot
#
# Six hundred sentences, thirty annotators. On one sentence in sixteen everybody is misled in the same way. The votes agree there, so the
# labels are sure, and wrong.

# %%
import numpy as np
import polars as pl

import crowdwise

rng = np.random.default_rng(2)
n_items, n_annotators = 600, 30
truth = rng.integers(0, 3, n_items)
misleading = rng.random(n_items) < 1 / 16
looks = np.where(misleading, (truth + 1) % 3, truth)

item = np.repeat(np.arange(n_items), 5)
annotator = np.concatenate([rng.choice(n_annotators, 5, replace=False) for _ in range(n_items)])
skill = rng.uniform(0.6, 0.9, n_annotators)
said = np.where(rng.random(len(item)) < skill[annotator], looks[item], rng.integers(0, 3, len(item)))
names = np.array(["negative", "neutral", "positive"])
votes = crowdwise.Annotations.from_arrays(item, annotator, names[said])

result = crowdwise.make("consensus").fit(votes).result_
labels = result.items_frame()
print(f"{labels['confidence'].mean():.1%} mean confidence")
print(f"{(labels['label'].to_numpy() == names[truth]).mean():.1%} of the labels are right, which nobody knows yet")

# %% [check]
sure = labels["confidence"].to_numpy() > 0.9
assert (labels["label"].to_numpy() != names[truth])[sure & misleading].mean() > 0.9

# %% [markdown]
# ## Draw, check, certify
#
# `draw` says which items to check, at random and with known chances. Somebody who knows writes the true class beside each, without a
# look at the votes. Here the truth is known, so a line of Python is that somebody.

# %%
known = dict(zip(range(n_items), names[truth]))
drawn = crowdwise.audit.draw(result, 150, error=0.1, seed=0)
table = drawn.frame()
table = table.with_columns(pl.Series("true label", [known[item] for item in table["item"]]))
table.head(4)

# %% [markdown]
# `certify` says of which labels at most a tenth is wrong, with a probability of 95 %. That holds whatever the votes are like: nothing is
# assumed of annotators or of the model, only that the items were drawn at random.

# %%
found = crowdwise.audit.certify(result, table, error=0.1, level=0.95)
print(f"{found.n_certified} of {n_items} labels are certified: at most 10% of them are wrong")
print(f"right labels among all: {found.right.share:.1%} (95% interval {found.right.low:.1%} to {found.right.high:.1%})")

# %% [check]
share = (labels["label"].to_numpy() == names[truth]).mean()
assert found.n_certified > 0
assert found.right.low <= share <= found.right.high

# %% [markdown]
# The truth is known here, so the promise can be checked.

# %%
wrong = labels["label"].to_numpy() != names[truth]
print(f"{wrong[found.accept].mean():.1%} of the accepted labels are wrong, and {wrong.mean():.1%} of all")

# %% [check]
assert wrong[found.accept].mean() <= 0.1

# %% [markdown]
# ## Stricter promises certify less
#
# Each promise has its own certificate. For the strictest one, 150 checks are not enough here: errors are among the sure labels too,
# and what is not shown is not certified.

# %%
from matplotlib import pyplot

promises = [0.05, 0.08, 0.1, 0.12, 0.15, 0.2]
certified = []
for error in promises:
    one = crowdwise.audit.draw(result, 150, error=error, seed=0).frame()
    one = one.with_columns(pl.Series("true label", [known[item] for item in one["item"]]))
    certified.append(crowdwise.audit.certify(result, one, error=error).n_certified)
    print(f"at most {error:.0%} wrong: {certified[-1]} labels")

figure, axes = pyplot.subplots(figsize=(6.5, 3.4), layout="constrained")
axes.plot(promises, certified, marker="o")
axes.set_xlabel("share of wrong labels to allow")
axes.set_ylabel("labels certified, of 600")
axes.set_title("What 150 checks certify")

# %% [check]
assert certified[0] == 0 < certified[-1]

# %% [markdown]
# ## Look as often as you like
#
# The certificate holds at every look, so checking may stop as soon as it is enough.

# %%
for n_checked in (50, 100, 150, 200):
    more = crowdwise.audit.draw(result, n_checked, error=0.15, seed=0).frame()
    more = more.with_columns(pl.Series("true label", [known[item] for item in more["item"]]))
    look = crowdwise.audit.certify(result, more, error=0.15)
    print(f"{n_checked} checks: {look.n_certified} labels, right labels {look.right.low:.0%} to {look.right.high:.0%}")

# %% [markdown]
# The command line, tables for those who check, and a page for their browser: [Audit](../howto/audit.md).
