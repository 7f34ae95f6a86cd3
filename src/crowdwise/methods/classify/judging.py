"""Who judges a training: items that are held out, or rows with votes or labels that the user gave."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from crowdwise.data.annotations import Annotations
from crowdwise.engines.gradient.rows import rows_of
from crowdwise.engines.gradient.stopping import Judge
from crowdwise.engines.gradient.stream import refuse_streams
from crowdwise.errors import InputError, SettingError
from crowdwise.estimator.aggregator import as_annotations
from crowdwise.estimator.carry import positions
from crowdwise.kernels.types import Integers
from crowdwise.methods.classify.align import is_plain, n_rows_of, votes_of_labels
from crowdwise.methods.classify.features import checked_features
from crowdwise.methods.classify.network_model import suited_rows
from crowdwise.methods.classify.runs import Task
from crowdwise.methods.classify.start import crowd_confusion, start_confusion
from crowdwise.parts.heads.batch import VoteList

__all__ = ["Given", "given_data", "given_judge", "held_out_judge"]

# Checked rows, and their votes; of true labels, those of one annotator who is always right.
Given = tuple[Any, Annotations, bool]


def held_out_judge(task: Task, taught: Annotations, held_out: Integers) -> Judge:
    """Items of the training that are held out; annotators under the labels of the start, from the votes that teach."""
    confusion = start_confusion(taught, task.start.posterior.double().numpy())
    table = torch.as_tensor(confusion, dtype=task.start.dtype, device=task.device)
    return Judge(table, task.vote_list, torch.as_tensor(held_out, device=task.device), task.known)


def given_data(estimator: Any, data: Any, votes: Annotations) -> Given | None:
    """``validation_data=(X, y)``: rows with votes, or one true label each, checked before anything is trained."""
    if data is None:
        return None
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise SettingError(f"validation_data must be a pair (X, y) of rows and their votes or true labels; got {data!r:.60}")
    X, y = data
    refuse_streams(X, "validation_data")
    features = checked_features(estimator, X, fitting=False, images=estimator.takes_images)
    labels = is_plain(y)
    judging = votes_of_labels(y) if labels else as_annotations(y)
    unknown = sorted(set(judging.classes.tolist()) - set(votes.classes.tolist()), key=str)
    if unknown:
        raise InputError(f"validation_data has the class {unknown[0]!r}, which the votes do not have")
    if judging.n_items != n_rows_of(features):
        what = "labels" if labels else "items with votes"
        raise InputError(f"validation_data: X has {n_rows_of(features):,} rows but there are {judging.n_items:,} {what}")
    if judging.n_votes == 0:
        raise InputError("validation_data has no votes to judge by; leave it out")
    return features, judging.with_classes(votes.classes.tolist()), labels


def given_judge(given: Given, task: Task, network: nn.Module) -> Judge:
    """Judge by given rows; annotators that the training does not know are like the crowd."""
    features, votes, labels = given
    if labels:
        confusion = np.eye(votes.n_classes)[None]
    else:
        posterior = task.start.posterior.double().numpy()
        who = positions(votes.annotators, task.votes.annotators)
        crowd = crowd_confusion(task.votes, posterior)
        confusion = np.where((who >= 0)[:, None, None], start_confusion(task.votes, posterior)[who], crowd)
    dtype, device = task.start.dtype, task.device
    rows = suited_rows(network, rows_of(features, dtype), votes.n_classes, dtype, torch.device("cpu"))
    voted = torch.as_tensor(np.flatnonzero(votes.votes_per_item > 0), device=device)
    return Judge(torch.as_tensor(confusion, dtype=dtype, device=device), VoteList(votes, dtype, device), voted, rows=rows)
