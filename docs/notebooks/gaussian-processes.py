# Cells import where they need something, and end with values to show.
# ruff: noqa: B018, B905, E402, E501
# needs: torch, gpytorch

# %% [markdown]
# # Gaussian processes and what they do not know
#
# A classifier that learns from a crowd should say two things: which class, and how sure. A Gaussian process says the second by
# itself: far from everything it has seen, it does not know.

# %% [markdown]
# ## Two moons and five annotators
#
# Two classes that no straight line separates; a few hundred points; five annotators, one of whom answers at random and one who
# confuses one class. Everybody labels about half of the points.

# %%
import numpy as np

import crowdwise

rng = np.random.default_rng(0)
n = 240
truth = np.arange(n) % 2
angle = rng.uniform(0, np.pi, n)
moons = np.stack([np.cos(angle), np.sin(angle)], axis=1)
X = np.where(truth[:, None] == 0, moons, [1.0, 0.4] - moons) + 0.13 * rng.normal(size=(n, 2))

right = {"ada": (0.95, 0.95), "ben": (0.85, 0.9), "cleo": (0.9, 0.6), "dan": (0.5, 0.5), "eve": (0.8, 0.8)}
rows = [
    (item, who, truth[item] if rng.random() < right[who][truth[item]] else 1 - truth[item])
    for item in range(n)
    for who in right
    if rng.random() < 0.5
]
votes = crowdwise.Annotations.from_arrays(*zip(*rows), items=range(n), classes=[0, 1])
votes

# %% [markdown]
# ## The fit
#
# `SVGPCR` has a sparse Gaussian process for every class and a Dirichlet posterior for every row of every confusion matrix. Labels,
# annotators and functions are inferred together, from the votes alone.

# %%
model = crowdwise.SVGPCR(inducing=30, likelihood="softmax", epochs=60, random_state=0).fit(X, votes)
majority = crowdwise.make("majority").fit(votes)
print(
    f"labels right: majority {(majority.labels_ == truth).mean():.1%}, from features and votes {(model.labels_ == truth).mean():.1%}"
)

# %% [check]
assert (model.labels_ == truth).mean() > (majority.labels_ == truth).mean()

# %% [markdown]
# ## How sure it is, and where
#
# Left, the probability of the second class. Right, the variance of the function behind it. Between the moons the probability is
# near a half because the classes meet there: more points would not change that. At the corners nothing is known, and the variance
# says so: more points there would.

# %%
from matplotlib import pyplot

side = np.linspace(-2.6, 3.6, 70)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
probability = model.predict_proba(grid)[:, 1].reshape(70, 70)
mean, variance = model.latent(grid)
doubt = variance.mean(axis=1).reshape(70, 70)

figure, (left, right_axes) = pyplot.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for axes, values, title in ((left, probability, "Probability of class 1"), (right_axes, doubt, "Variance of the functions")):
    shown = axes.contourf(side, side, values, levels=12, cmap="coolwarm" if axes is left else "viridis")
    axes.scatter(*X.T, c=truth, s=8, cmap="coolwarm", edgecolors="white", linewidths=0.3)
    axes.set_title(title)
    figure.colorbar(shown, ax=axes)

# %% [check]
near, far = model.latent(X)[1].mean(), model.latent([[3.6, 3.6], [-2.6, -2.6]])[1].mean()
assert far > 2 * near

# %%
places = {"on the first moon": [0.0, 1.0], "between the moons": [0.5, 0.2], "far from both": [3.6, 3.6]}
for place, point in places.items():
    probabilities, (_, spread) = model.predict_proba([point])[0], model.latent([point])
    print(f"{place:18} class probabilities {probabilities.round(2)}, variance {spread.mean():.2f}")

# %% [check]
at_ease, unsure = (
    model.predict_proba([places["on the first moon"]])[0].max(),
    model.predict_proba([places["far from both"]])[0].max(),
)
assert at_ease > 0.9 > unsure

# %% [markdown]
# ## The annotators, with intervals
#
# The rows of a confusion matrix are uncertain too, the more the fewer votes there are. Shown is how often each annotator is right on
# each class, with the 95 % interval, beside the truth.

# %%
low, high = model.confusion_interval()
figure, axes = pyplot.subplots(figsize=(7, 3.6), layout="constrained")
for k, colour in enumerate(("tab:blue", "tab:red")):
    place = np.arange(len(right)) + (k - 0.5) * 0.25
    middle = model.confusion_[:, k, k]
    axes.errorbar(
        place, middle, yerr=[middle - low[:, k, k], high[:, k, k] - middle], fmt="o", color=colour, label=f"class {k}"
    )
    axes.plot(place, [share[k] for share in right.values()], "_", color="black", markersize=14)
axes.set_xticks(range(len(right)), list(right))
axes.set_ylabel("share of right answers")
axes.set_title("Annotators with intervals; the truth is black")
axes.legend()

# %% [check]
inside = [low[a, k, k] <= share[k] <= high[a, k, k] for a, share in enumerate(right.values()) for k in (0, 1)]
assert np.mean(inside) >= 0.7

# %% [markdown]
# ## Draws of what might be true
#
# `latent_draws` gives whole functions from the posterior. Along a line through both moons they agree where there are points and part
# ways where there are none.

# %%
along = np.stack([np.linspace(-4, 5, 120), np.full(120, 0.2)], axis=1)
draws = model.latent_draws(along, 12, random_state=0, probability=True)
figure, axes = pyplot.subplots(figsize=(8, 3.4), layout="constrained")
axes.plot(along[:, 0], np.asarray(draws)[..., 1].reshape(12, 120).T, color="tab:blue", alpha=0.5, linewidth=1)
axes.set_xlabel("first feature, at 0.2 of the second")
axes.set_ylabel("probability of class 1")
axes.set_title("Twelve functions that the votes allow")

# %% [markdown]
# More about this model, its settings and how honest its probabilities are on real sets: [svgpcr](../methods/svgpcr.md).
