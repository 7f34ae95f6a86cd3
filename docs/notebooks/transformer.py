# Cells import where they need something, and end with values to show.
# ruff: noqa: B018, B905, E402, E501
# needs: torch, transformers

# %% [markdown]
# # A transformer trained on votes
#
# A text classifier, and no true labels: only what three people each say of every text, some of them carelessly. Train the network on
# the votes themselves, and it learns whom to believe on the way.

# %% [markdown]
# ## Texts and votes
#
# The texts are made up: twelve words, of which a few belong to the topic and the rest to nothing. Words are numbers already, as a
# tokenizer would give them. Eight annotators differ in skill; two of them mostly guess.

# %%
import numpy as np

import crowdwise

rng = np.random.default_rng(0)
n_texts, n_words, vocabulary, topics = 600, 12, 120, 3
truth = rng.integers(0, topics, n_texts)
texts = rng.integers(30, vocabulary, (n_texts, n_words))
about = rng.random((n_texts, n_words)) < 0.3
texts[about] = (10 * truth[:, None] + rng.integers(0, 10, (n_texts, n_words)))[about]

skill = np.array([0.9, 0.85, 0.8, 0.7, 0.65, 0.6, 0.36, 0.36])
train = 400
rows = []
for text in range(train):
    for who in rng.choice(len(skill), 3, replace=False):
        said = truth[text] if rng.random() < skill[who] else rng.integers(topics)
        rows.append((text, f"annotator-{who + 1}", said))
votes = crowdwise.Annotations.from_arrays(*zip(*rows), items=range(train), classes=range(topics))
votes

# %% [markdown]
# ## The network
#
# A small BERT, built from its configuration: nothing is downloaded. A pretrained one is used alike. Models of Hugging Face are taken
# as they are: rows are a dict of the arrays that the model reads, and its answer has logits.

# %%
import torch
from transformers import BertConfig, BertForSequenceClassification

config = BertConfig(
    vocab_size=vocabulary,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=n_words,
    num_labels=topics,
)


def network():
    return BertForSequenceClassification(config)


known, new = {"input_ids": texts[:train]}, {"input_ids": texts[train:]}

# %% [markdown]
# ## Three ways to train it
#
# On the labels of the majority; on the votes, with a confusion matrix per annotator learned along with the network (`ccem`); and on
# the true labels, which nobody has, as the most that can be reached.


# %%
def trained(method, y, **settings):
    torch.manual_seed(0)
    model = method(network=network, epochs=15, batch_size=64, learning_rate=3e-3, validation=0, random_state=0, **settings)
    return model.fit(known, y)


majority = crowdwise.make("majority").fit(votes)
models = {
    "majority labels": trained(crowdwise.CCEM, majority.labels_),
    "votes": trained(crowdwise.CCEM, votes),
    "true labels": trained(crowdwise.CCEM, truth[:train]),
}
scores = {name: model.score(new, truth[train:]) for name, model in models.items()}
for name, score in scores.items():
    print(f"trained on {name:16} {score:.1%} of {n_texts - train} new texts are right")

# %% [check]
assert scores["votes"] > scores["majority labels"]
assert scores["votes"] > 0.6

# %% [markdown]
# The labels of the training texts gain too, because text and votes are weighed together.

# %%
model = models["votes"]
print(f"majority vote: {(majority.labels_ == truth[:train]).mean():.1%} of the training texts")
print(f"network and votes: {(model.labels_ == truth[:train]).mean():.1%}")

# %% [check]
assert (model.labels_ == truth[:train]).mean() > (majority.labels_ == truth[:train]).mean()

# %% [markdown]
# ## Whom it believes
#
# The network was never told who is good. What it learned of the annotators, beside the truth:

# %%
from matplotlib import pyplot

learned = model.confusion_.diagonal(axis1=1, axis2=2).mean(axis=1)
actual = skill + (1 - skill) / topics
figure, axes = pyplot.subplots(figsize=(5.5, 3.6), layout="constrained")
axes.scatter(actual, learned)
for name, x, y in zip(model.annotators_, actual, learned):
    axes.annotate(str(name).removeprefix("annotator-"), (x, y), xytext=(4, 4), textcoords="offset points")
axes.plot([0.4, 1], [0.4, 1], color="grey", linewidth=0.8)
axes.set_xlabel("true accuracy")
axes.set_ylabel("learned accuracy")
axes.set_title("Annotators as the network sees them")

# %% [check]
assert np.corrcoef(actual, learned)[0, 1] > 0.8

# %% [markdown]
# With a tokenizer and texts of any length: [Fine-tune a transformer](../howto/fine-tune-a-transformer.md). Schedules, early stopping
# on held-out votes, mixed precision and several processes: [Train a classifier](../howto/train-a-classifier.md).
# Other ways to model the annotators are [methods](../methods.md) of the same kind: change one name.
