"""Overlap by need beside the same overlap for all: answers it takes to get as many labels right.

    python -m benchmarks run overlap                    # what has no record yet, written to its page
    python -m benchmarks run overlap --sets dog --seeds 1 --dry-run

Recorded crowds answer a project of Label Studio. Its free edition is imitated in this process: of the tasks that are not
closed, the next is the one with the lowest score among those with a prediction of the project's version; an answer closes a
task whose overlap it fills; and of its recorded annotators who have not answered it yet one, drawn at random, answers. What the
service would do is not imitated but called: after every fifth answer `live` infers the tasks again, `questions.Desk` ranks
and `label_studio.board` writes overlaps and predictions; after every fiftieth all is fitted again. Settings are those of a new
campaign file.

Uniform overlap m: m recorded annotators per task, drawn at random, and the same method on all of their votes. The sets,
overlaps 3 and 5 as the comparison, seeds and settings were chosen before any result was seen.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.crowd_sets import labelled
from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from benchmarks.records import Records

BENCHMARK = Benchmark(
    "How many answers does overlap by need save in Label Studio?",
    sections=("overlap",),
    data=("rte", "temp"),
    packages=("fastapi", "sqlalchemy"),
    measures=("serve/label_studio/board.py", "serve/live.py", "serve/questions.py", "campaign", "methods", "engines", "parts"),
    renders=("",),
    quick="--sets dog --seeds 1 --dry-run",
    small={"MOST": 3, "COMPARED": (2, 3)},
)

SECTION, SETS, SEEDS = "overlap", ("temp", "rte"), 5
METHOD, POLICY, MOST, COMPARED = "consensus", "warm-information", 10, (3, 5)
PLANNED, FITTED = 5, 50


class Replay:
    """A campaign on a recorded crowd."""

    def __init__(self, name: str, seed: int) -> None:
        from crowdwise.serve.live import Live
        from crowdwise.serve.questions import Desk
        from crowdwise.serve.settings import read_settings

        votes, truth = labelled(name)
        self.truth, self.classes = truth, [str(one) for one in votes.classes.tolist()]
        self.rng = np.random.default_rng([seed, 11])
        # The recorded votes of every task, in the order in which they come.
        self.recorded: list[list[tuple[str, int]]] = [[] for _ in range(votes.n_items)]
        for row in self.rng.permutation(votes.n_votes).tolist():
            person = str(votes.annotators[int(votes.annotator[row])])
            self.recorded[int(votes.item[row])].append((person, int(votes.label[row])))
        self.n = votes.n_items
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "campaign.toml"
            path.write_text(f"[campaign]\nclasses = {json.dumps(self.classes)}\n")
            settings = read_settings(path)
        self.live, self.desk, self.questions = Live(self.classes, METHOD), Desk(settings), settings.questions
        self.live.add([(str(n), None) for n in range(self.n)])

    def fit(self, rows: list[tuple[str, str, str]]) -> Any:
        """The method on some votes."""
        from crowdwise.data.annotations import Annotations
        from crowdwise.estimator.registry import make_aggregator

        item, person, label = ([row[k] for row in rows] for k in range(3))
        votes = Annotations.from_arrays(item, person, label, items=[str(n) for n in range(self.n)], classes=self.classes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return make_aggregator(METHOD).fit(votes).result_

    def right(self, label: np.ndarray) -> float:
        """Share of right labels among tasks whose truth is known; a task without a label is wrong."""
        known = self.truth >= 0
        return float((label[known] == self.truth[known]).mean())

    def uniform(self) -> list[tuple[int, float]]:
        """Answers and share of right labels, for each overlap."""
        found = []
        for m in range(1, MOST + 1):
            rows = [(str(n), who, self.classes[k]) for n, those in enumerate(self.recorded) for who, k in those[:m]]
            result = self.fit(rows)
            place = np.array([int(name) for name in result.votes.items.tolist()])
            label = np.full(self.n, -1)
            label[place] = result.codes
            found.append((len(rows), self.right(label)))
        return found

    def adaptive(self) -> list[tuple[int, float]]:
        """Answers and share of right labels, from fit to fit until every task is closed or was answered by all."""
        from crowdwise.campaign.answers import Answers
        from crowdwise.serve.fitting import Fit
        from crowdwise.serve.label_studio.board import Rules, Task, View, writes

        rules = Rules(sure=0.95, least=self.questions.least, explore=self.questions.explore)
        tasks, given = {n + 1: Task() for n in range(self.n)}, [0] * self.n
        rows: list[tuple[str, str, str]] = []
        own: list[list[tuple[str, str, str]]] = [[] for _ in range(self.n)]
        curve: list[tuple[int, float]] = []
        touched: set[int] = set()

        def write() -> None:
            label, sure, votes = self.live.label, self.live.confidence, self.live.n_votes
            views = {
                n + 1: View(
                    None if label[n] < 0 else self.classes[label[n]],
                    0.0 if label[n] < 0 else float(sure[n]),
                    int(votes[n]),
                    False,
                )
                for n in range(self.n)
            }
            self.desk.plan(self.live, {})
            # Whom nobody is left to ask about is not there to be asked.
            there = {n: task for n, task in tasks.items() if given[n - 1] < len(self.recorded[n - 1])}
            for gone in tasks.keys() - there.keys():
                tasks[gone].labelled, tasks[gone].queue = True, None
            for one in writes(there, views, [n + 1 for n in self.desk.order.tolist()], rules):
                if one.kind == "overlap":
                    tasks[one.task].overlap, tasks[one.task].labelled = one.overlap, one.labelled
                elif one.kind in ("ask", "drop"):
                    tasks[one.task].queue = (1, one.score) if one.kind == "ask" else None

        while True:
            if len(rows) % FITTED == 0:
                result = self.fit(rows)
                self.live.adopt(Fit(len(rows), result, Answers(result, None, None).rows.concentration, (), 0.0))
                curve.append((len(rows), self.right(self.live.label)))
            if len(rows) % PLANNED == 0:
                if touched:
                    names = [str(n) for n in sorted(touched)]
                    self.live.infer(names, [row for n in sorted(touched) for row in own[n]])
                    touched.clear()
                write()
            free = [(task.queue[1], n) for n, task in tasks.items() if task.queue is not None and not task.labelled]
            number = min(free)[1] if free else next((n for n, task in tasks.items() if not task.labelled), None)
            if number is None:
                write()
                if all(task.labelled for task in tasks.values()):
                    break
                continue
            n, task = number - 1, tasks[number]
            person, code = self.recorded[n][given[n]]
            rows.append((str(n), person, self.classes[code]))
            given[n] += 1
            task.annotations += 1
            task.labelled = task.annotations >= task.overlap or given[n] == len(self.recorded[n])
            own[n].append(rows[-1])
            touched.add(n)
        result = self.fit(rows)
        self.live.adopt(Fit(len(rows), result, None, (), 0.0))
        return [*curve, (len(rows), self.right(self.live.label))]


def measure(name: str, seed: int) -> dict[str, Any]:
    """Both on the same order of votes."""
    return {"uniform": Replay(name, seed).uniform(), "adaptive": Replay(name, seed).adaptive()}


def answers_for(curve: list[tuple[int, float]], share: float) -> float:
    """Answers after which the share of right labels is reached and never lost again; nan where it is not."""
    found = float("nan")
    for answers, right in reversed(curve):
        if right < share:
            break
        found = answers
    return found


def render(records: Records, found: dict[str, list[dict[str, Any]]]) -> str:
    """The block of the page."""
    rows = []
    for name, runs in found.items():
        uniform = np.array([run["uniform"] for run in runs]).mean(axis=0)
        for m in COMPARED:
            reached = [answers_for(run["adaptive"], run["uniform"][m - 1][1]) for run in runs]
            there = [one for one in reached if one == one]
            answers, right = uniform[m - 1]
            saved = f"{100 * (1 - np.mean(there) / answers):.0f}%" if there else "-"
            words = f"{np.mean(there):,.0f}" if there else "-"
            rows.append([name, f"{m}", f"{answers:,.0f}", f"{right:.3f}", words, f"{len(there)} of {len(runs)}", saved])
        ends = np.array([run["adaptive"][-1] for run in runs]).mean(axis=0)
        rows.append([name, "by need, to its end", f"{ends[0]:,.0f}", f"{ends[1]:.3f}", "", "", ""])
    heads = ["set", "overlap", "answers", "right", "answers by need for as many right", "reached in", "saved"]
    command = "python -m benchmarks run overlap"
    return f"{provenance(command, records)}\n\n{table(heads, rows)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--dry-run", action="store_true", help="measure and print, record nothing")
    given = parser.parse_args()
    records, found = Records("overlap"), {}
    for name in given.sets.split(","):
        for seed in range(given.seeds):
            run = measure(name, seed) if given.dry_run else records.once(f"{name} {seed}", lambda n=name, s=seed: measure(n, s))
            found.setdefault(name, []).append(run)
            print(name, seed, run["uniform"], run["adaptive"][-1], flush=True)
    if not given.dry_run and tuple(found) == SETS and given.seeds == SEEDS:
        put(SECTION, render(records, found))
    else:
        print(render(records, found))


if __name__ == "__main__":
    main()
