# Cells import where they need something, and end with values to show.
# ruff: noqa: B905, E402, E501

# %% [markdown]
# # A campaign on a budget
#
# Every vote costs. Instead of asking five people about everything, ask the next question where it tells most, and stop when further
# answers are no longer worth it.

# %% [markdown]
# ## A crowd that answers
#
# The crowd is simulated, so that we can see how many labels are right at any time: 150 items of three classes, twelve annotators of
# different skill, two of whom answer at random. In a real campaign people answer.

# %%
import numpy as np
import polars as pl

import crowdwise
from crowdwise.campaign import ActiveLoop, SimulatedCrowd, plan
from crowdwise.data.simulate import simulate

drawn = simulate(
    150, n_annotators=12, n_classes=3, annotators={"dirichlet": 10 / 12, "uniform-spammer": 2 / 12}, random_state=5
)
crowd = SimulatedCrowd(
    drawn.confusion, drawn.truth, items=drawn.votes.items, annotators=drawn.votes.annotators, classes=drawn.votes.classes
)
truth = dict(zip(drawn.votes.items, drawn.votes.classes[drawn.truth]))

# %% [markdown]
# ## Ask, tell, stop
#
# `ask` names the next questions, `tell` takes the answers in, and `stop` is empty until there is a reason to stop: here, that 95 % of
# the labels are right, with a probability of 95 %, as the model sees it. These annotators err independently of each other, so the
# model is taken at its word (`confidence="model"`). With people leave that out: they share mistakes, and the default knows it.


# %%
def campaign(policy):
    loop = ActiveLoop(
        crowdwise.make("bayes-gc", confidence="model"),
        policy,
        items=crowd.items,
        annotators=crowd.annotators,
        classes=crowd.classes.tolist(),
        random_state=0,
    )
    curve, reason = [], ""
    while loop.votes.n_votes < 900 and not reason:
        loop.tell(crowd.answer(loop.ask(budget=60)))
        labels = dict(loop.model.items_frame().select("item", "label").iter_rows())
        right = np.mean([labels[item] == known for item, known in truth.items()])
        curve.append((loop.votes.n_votes, right))
        reason = loop.stop(target=0.95)
    return loop, curve, reason


loop, curve, reason = campaign("warm-information")
print(f"{curve[-1][0]} votes: {reason}")
print(f"{curve[-1][1]:.1%} of the labels are right")

# %% [check]
assert reason
assert curve[-1][1] > 0.9

# %% [markdown]
# Such a promise is the model's own, and tends to be bold: check some labels before you rely on it ([audit](audit.md)).
#
# The same crowd, asked at random until the same promise holds:

# %%
_, by_chance, chance_reason = campaign("random+random")
print(f"{by_chance[-1][0]} votes: {chance_reason or 'no reason to stop yet'}")
print(f"{by_chance[-1][1]:.1%} of the labels are right")

# %% [check]
assert by_chance[-1][0] > curve[-1][0]

# %%
from matplotlib import pyplot

figure, axes = pyplot.subplots(figsize=(7, 3.8), layout="constrained")
for name, points in {"by information": curve, "at random": by_chance}.items():
    axes.plot(*zip(*points), marker="o", markersize=3, label=name)
axes.axhline(0.95, color="grey", linewidth=0.8)
axes.set_xlabel("votes")
axes.set_ylabel("share of right labels")
axes.set_title("Right labels as votes come in")
axes.legend()

# %% [markdown]
# ## Who was asked
#
# The policy sends most questions to those who turn out to know, and few to those who answer at random.

# %%
asked = loop.votes.to_frame().group_by("annotator").len("questions")
skill = pl.DataFrame(
    {"annotator": drawn.votes.annotators.tolist(), "true accuracy": drawn.confusion.diagonal(axis1=1, axis2=2).mean(1)}
)
print(asked.join(skill, on="annotator").sort("true accuracy", descending=True).with_columns(pl.col("true accuracy").round(2)))

# %% [check]
table = asked.join(skill, on="annotator").sort("true accuracy", descending=True)
assert table["questions"][:3].mean() > 2 * table["questions"][-2:].mean()

# %% [markdown]
# ## How many more votes?
#
# Before the next round, `plan` simulates campaigns from what is known, and says what a higher target would take.

# %%
for target in (0.98, 0.99):
    further = plan(loop.model.result_, target, repeats=6)
    print(
        f"for {target:.0%}: about {further.votes:.0f} more votes, {further.low:.0f} to {further.high:.0f} in the simulated campaigns"
    )

# %% [markdown]
# Limits, prices, capacities, features and campaigns that survive a crash: [Run a campaign](../howto/run-a-campaign.md).
