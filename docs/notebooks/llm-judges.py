# Cells import where they need something, and end with values to show.
# ruff: noqa: B018, B905, E402, E501

# %% [markdown]
# # LLM judges that share errors
#
# Three prompts of one model agree with each other, right or wrong. Counted as three judges they outvote everybody else. Who counts
# as one, what does each judge add, and which panel is worth its price?

# %% [markdown]
# ## A panel
#
# The panel is simulated: model-a with three prompts, three other models, and a person, on three hundred answers that are good or
# bad. The prompts of model-a repeat what the model saw, also where it was wrong.

# %%
import numpy as np
import polars as pl

import crowdwise

rng = np.random.default_rng(3)
n_items = 300
truth = rng.integers(2, size=n_items)


def answers(right, seen=truth):
    return np.where(rng.random(n_items) < right, seen, 1 - seen)


seen_by_a = answers(0.72)
said = {f"model-a/{prompt}": answers(0.96, seen_by_a) for prompt in ("plain", "strict", "steps")}
said |= {"model-b": answers(0.85), "model-c": answers(0.78), "model-d": answers(0.8), "ann": answers(0.88)}

names = list(said)
votes = crowdwise.Annotations.from_arrays(
    item=np.tile([f"q{n:03d}" for n in range(n_items)], len(names)),
    annotator=np.repeat(names, n_items),
    label=np.array(["bad", "good"])[np.concatenate(list(said.values()))],
)
known = np.array(["bad", "good"])[truth]
votes

# %% [markdown]
# ## The echo
#
# Majority vote hears model-a three times. Models of annotators who err independently do even worse: three judges who nearly always
# agree look like three excellent ones, and the others like those who err.


# %%
def accuracy(model):
    return (model.labels_ == known).mean()


plain = {name: crowdwise.make(name).fit(votes) for name in ("majority", "dawid-skene", "consensus")}
for name, model in plain.items():
    print(f"{name:12} {accuracy(model):.1%}")

# %% [check]
assert accuracy(plain["majority"]) > accuracy(plain["consensus"]) + 0.05

# %% [markdown]
# ## Found in the votes
#
# Agreement on *wrong* answers gives the family away: pairs of independent judges agree as often as their skill explains, and these
# agree far more. Nobody has to say who belongs together; where you know it, say it.

# %%
from crowdwise.trust.crowd import groups

groups.groups(plain["consensus"].result_)

# %% [check]
found_groups = groups.groups(plain["consensus"].result_)
family = {name for name in found_groups if found_groups[name] == found_groups["model-a/plain"]}
assert {"model-a/plain", "model-a/steps", "model-a/strict"} <= {str(name) for name in family}

# %% [markdown]
# Fused, the family is one judge with one voice.

# %%
from crowdwise.trust.crowd.fusion import fused
from crowdwise.trust.judges import Families, examine

families = Families.of(votes, {name: "model-a" for name in names if name.startswith("model-a")} | {"ann": "people"})
one_voice = fused(votes, families.fused_code, families.fused_names)
together = crowdwise.make("consensus").fit(one_voice)
print(f"consensus, model-a as one: {accuracy(together):.1%}")

# %% [check]
assert accuracy(together) > max(accuracy(model) for model in plain.values()) + 0.03

# %% [markdown]
# ## What every judge adds
#
# `bits` is what a judge says of the answer by itself, and `bits_added` what is left of it given all the others. A second prompt of a
# model adds next to nothing, however good it is.

# %%
prices = {"model-a": 0.002, "model-b": 0.01, "model-c": 0.001, "model-d": 0.004, "ann": 0.15}
price = np.array([prices[str(name).partition("/")[0]] for name in votes.annotators])
found = examine(votes, families, together.result_.model_posterior, price=price, target=0.9)
table = found.table.select("annotator", "accuracy", "bits", "bits_added", "price")
print(table.with_columns(pl.col("accuracy", "bits", "bits_added").round(3)))

# %% [check]
added = dict(zip(found.table["annotator"], found.table["bits_added"]))
assert max(added[name] for name in added if str(name).startswith("model-a")) < min(added["ann"], added["model-b"])

# %%
from matplotlib import pyplot

order = found.table.sort("bits")
figure, axes = pyplot.subplots(figsize=(7, 3.5), layout="constrained")
place = np.arange(order.height)
axes.barh(place + 0.2, order["bits"], 0.4, label="alone")
axes.barh(place - 0.2, order["bits_added"], 0.4, label="beside all others")
axes.set_yticks(place, order["annotator"].to_list())
axes.set_xlabel("bits about the answer")
axes.set_title("What a judge says, and what it adds")
axes.legend()

# %% [markdown]
# ## Which panel
#
# Panels are weighed by the same model: the accuracy to expect, its price, and how many independent human votes it is worth.

# %%
panels = found.panels.select("panel", "n_judges", "price", "accuracy", "human_votes")
print(panels.with_columns(pl.col("price", "accuracy", "human_votes").round(3)))

# %% [markdown]
# These are expectations of a model. What holds for your judges, [an audit](audit.md) says: a few checked labels, drawn at random.
# More on favoured places, long answers and soft votes: [LLM judges as annotators](../howto/llm-judges.md).
