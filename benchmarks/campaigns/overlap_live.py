"""Overlap by need on a real Label Studio: ten recorded annotators work through its API, and the service beside it decides.

    make .venv-label-studio/.installed
    python -m benchmarks run overlap_live

Everybody in bluebird answered every item, so each of ten people, drawn with seed 0, is an account that answers as recorded,
about once a second. Nothing is imitated: the queue is Label Studio's, overlaps and predictions are what `crowdwise serve`
writes over HTTP. Uniform overlap m: m of the ten per task at random, mean of twenty draws, by the same method. The set, the
people and the settings (those of the replay, `overlap`) were chosen before any result was seen. Who is asked when depends on
the speed of both programs, so that the run does not repeat itself exactly.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.campaigns.overlap import answers_for
from benchmarks.crowd_sets import labelled
from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from benchmarks.records import Records

BENCHMARK = Benchmark(
    "Does overlap by need save answers on a real Label Studio?",
    sections=("overlap live",),
    data=("bluebird",),
    packages=("fastapi", "sqlalchemy"),
    measures=("serve",),
    renders=("",),
    no_quick="starts a Label Studio, which has an environment of its own",
)

SET, PEOPLE, DRAWS, COMPARED, PAUSE, LOOK = "bluebird", 10, 20, (3, 5), 1.0, 10
RUNS = Records("overlap_live")


def matrix() -> tuple[np.ndarray, np.ndarray]:
    """Recorded answers of the people, [items, people], and the truth."""
    votes, truth = labelled(SET)
    said = np.full((votes.n_items, votes.n_annotators), -1)
    said[votes.item, votes.annotator] = votes.label
    people = np.random.default_rng(0).choice(votes.n_annotators, PEOPLE, replace=False)
    assert (said[:, people] >= 0).all()
    return said[:, people], truth


def right_of(items: np.ndarray, people: np.ndarray, said: np.ndarray, truth: np.ndarray) -> float:
    """Share of right labels of the method on some of the answers; a task without a label is wrong."""
    from crowdwise.data.annotations import Annotations
    from crowdwise.methods.labels.consensus import Consensus

    votes = Annotations.from_arrays(items, people, said[items, people], items=np.arange(len(said)), classes=np.arange(2))
    return float((Consensus().fit(votes).result_.codes == truth).mean())


@RUNS.each
def uniform(m: int) -> list[float]:
    """Answers, and the mean share of right labels with the same overlap for all."""
    said, truth = matrix()
    shares = []
    for draw in range(DRAWS):
        rng = np.random.default_rng([draw, m])
        people = np.concatenate([rng.permutation(PEOPLE)[:m] for _ in said])
        shares.append(right_of(np.repeat(np.arange(len(said)), m), people, said, truth))
    return [len(said) * m, float(np.mean(shares))]


@RUNS.each
def adaptive() -> dict[str, list[list[float]]]:
    """Answers and share of right labels as the campaign went, and how many answers every task got."""
    from tests.live.campaign import Campaign
    from tests.live.crowd import Crowd
    from tests.live.studio import Studio, prepare

    said, truth = matrix()
    prepare()
    with tempfile.TemporaryDirectory() as name:
        studio = Studio(Path(name) / "studio")
        try:
            studio.wait()
            project = studio.project(len(said))
            people = [studio.person(f"person{k}") for k in range(PEOPLE)]
            place = {one["id"]: n for n, one in enumerate(sorted(studio.api.pages(project), key=lambda one: one["id"]))}
            campaign = Campaign(Path(name) / "campaign", studio, project)

            def answers(k: int, task: int) -> str:
                time.sleep(PAUSE)
                return ("no", "yes")[said[place[task], k]]

            def right() -> float:
                labels = {place[int(row["item"])]: row["label"] for row in campaign.client.labels() if row["label"] is not None}
                return sum(("no", "yes")[truth[n]] == label for n, label in labels.items()) / len(said)

            curve: list[list[float]] = []
            try:
                campaign.settle()
                crowd = Crowd(people, project, answers).start()
                while crowd.busy:
                    if len(crowd.given) >= LOOK * (len(curve) + 1):
                        curve.append([len(crowd.given), right()])
                        print(*curve[-1], flush=True)
                    time.sleep(0.1)
                campaign.settle()
                curve.append([len(crowd.given), right()])
            finally:
                os.kill(campaign.process.pid, signal.SIGTERM)
                campaign.process.wait(30)
        finally:
            studio.kill()
    given = np.bincount([place[task] for _, task, _ in crowd.given], minlength=len(said))
    return {"curve": curve, "tasks by answers": [[n, int(count)] for n, count in enumerate(np.bincount(given)) if count]}


def main() -> None:
    run, rows = adaptive(), []
    for m in COMPARED:
        answers, share = uniform(m)
        reached = answers_for([(int(n), right) for n, right in run["curve"]], share)
        saved = "-" if reached != reached else f"{100 * (1 - reached / answers):.0f}%"
        rows.append(
            [f"{m} for every task", f"{answers:,}", f"{share:.3f}", "-" if reached != reached else f"{reached:,.0f}", saved]
        )
    answers, share = run["curve"][-1]
    rows.append(["by need, to its end", f"{answers:,.0f}", f"{share:.3f}", "", ""])
    spread = ", ".join(f"{count} with {n}" for n, count in run["tasks by answers"])
    words = f"\n\nTasks by the number of their answers when the campaign ended: {spread}.\n\n"
    head = ["overlap", "answers", "right", "answers by need for as many right", "saved"]
    put("overlap live", provenance("python -m benchmarks run overlap_live", RUNS) + words + table(head, rows))


if __name__ == "__main__":
    main()
