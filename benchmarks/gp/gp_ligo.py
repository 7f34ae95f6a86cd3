"""Gaussian processes and networks on made-up data of the size of Gravity Spy (Morales-Alvarez et al. 2020, 4.3 and 5).

    python -m benchmarks run gp_ligo                              # the full size, written to its page
    python -m benchmarks run gp_ligo --study fifth     # all methods at a fifth of the size, single items and volunteers
    python -m benchmarks run gp_ligo --study flows                # how long should the flows be? At a tenth
    python -m benchmarks run gp_ligo --study overlap    # does the order of methods depend on the overlap? At a twentieth
    python -m benchmarks run gp_ligo --study fifth --scale 0.02 --seeds 0 --epochs 2 --dry-run

See gravity_spy.py for the data. Every run has a process and one thread of its own, so that its memory is its own: peak
resident memory of training and prediction beyond what was resident when data and libraries were loaded. Seconds are of the
processor. The seed draws data, crowd and training: of one seed all methods have the same data, so that differences are taken
seed by seed. Test accuracy is also taken after every epoch, with the clock stopped.

Runs are kept in benchmarks/records/gp_ligo.jsonl, so that an interrupted command continues where it stopped; changed settings,
scales and data are measured again, `--again METHOD` too. Tables show the runs of the study that exist, and how many.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.declaration import Benchmark
from benchmarks.gp import gravity_spy
from benchmarks.gp.gp_ligo_run import CLOSELY, EARLIER, ENOUGH, EPOCHS, METHODS, N_SAMPLED, run, settings_of
from benchmarks.gp.gp_ligo_tables import FLOWS, Results, flows_table, overlap_table, tables
from benchmarks.page import IMAGES, provenance, put
from benchmarks.records import KEPT, Records

BENCHMARK = Benchmark(
    "How do Gaussian processes do at the size of Gravity Spy?",
    sections=("gp ligo", "gp ligo fifth", "gp flows", "gp overlap"),
    packages=("torch",),
    renders=("--study full --kept", "--study fifth --kept", "--study flows --kept", "--study overlap --kept"),
    quick="--study overlap --scale 0.02 --seeds 0 --epochs 1 --overlap 1 --dry-run --methods 'svgpcr M=50'",
)

RUNS = Records("gp_ligo")
# Trials with other data or settings than a study's are kept too, but not in the repository.
TRIALS = Records("gp_ligo", KEPT)
# Of a method that a study does not list but `--methods` asks for.
FEW_SEEDS = 3


@dataclass(frozen=True)
class Study:
    """One question: data, seeds of every method, and the section of the page that answers it.

    `epochs` replaces EPOCHS; runs of seed 0 are `closely` looked at where pictures of single items and volunteers are drawn.
    """

    scale: float
    section: str
    seeds: dict[str, int]
    overlaps: tuple[float, ...] = (1.0,)
    epochs: int | None = None
    closely: bool = False
    kept: Records = RUNS


STUDIES = {
    "full": Study(1.0, "gp ligo", dict.fromkeys(CLOSELY, 3)),
    "fifth": Study(
        0.2,
        "gp ligo fifth",
        # The main comparison has the seeds; what is there for the course with M, or as a yardstick, has fewer.
        dict.fromkeys((*CLOSELY, "crowd-layer-vw"), 10)
        | dict.fromkeys(("svgpcr M=10", "svgpcr M=100", "gpnetcr M=10", "gpnetcr M=50", "gpnetcr M=100"), 3)
        | dict.fromkeys(("crowd-layer-vwb", "svgp M=50, true labels", "network, true labels"), 3),
        closely=True,
    ),
    # Flows begin at half of the epochs: as many as svgpcr's, or short trainings would be judged instead of flows.
    "flows": Study(0.1, "gp flows", dict.fromkeys(FLOWS, 3), epochs=EPOCHS["svgpcr"]),
    # The default: an epoch has 17 steps at this size.
    "overlap": Study(0.05, "gp overlap", dict.fromkeys(CLOSELY, 3), overlaps=(0.5, 1.0, 1.5, 2.0), epochs=50),
}


# -- all runs ------------------------------------------------------------------------------------


def key_of(entry: str, seed: int, study: Study, overlap: float) -> str:
    settings = settings_of(entry, study.epochs)
    return json.dumps([entry, settings, seed, study.scale, overlap, gravity_spy.EDITION], sort_keys=True)


def wanted(study: Study, entries: Sequence[str], seeds: list[int] | None) -> list[tuple[str, int, float]]:
    """Method, seed and overlap of all runs; a seed goes through all methods before the next."""
    asked = {entry: list(range(study.seeds.get(entry, FEW_SEEDS))) if seeds is None else seeds for entry in entries}
    every = sorted({seed for several in asked.values() for seed in several})
    return [(entry, seed, o) for seed in every for o in study.overlaps for entry in entries if seed in asked[entry]]


def apart(entry: str, seed: int, study: Study, overlap: float) -> dict[str, Any]:
    """A run in a process and one thread of its own."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    closely = study.closely and seed == 0 and entry in CLOSELY
    given = json.dumps([entry, settings_of(entry, study.epochs), seed, study.scale, overlap, closely])
    command = [sys.executable, "-m", __spec__.name, "--one", given]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=os.environ | threads, check=True)
    return {"seed": seed} | json.loads(done.stdout.splitlines()[-1])


def measure(study: Study, runs: list[tuple[str, int, float]], again: Sequence[str] = ()) -> None:
    """Run what is not kept, and all of the methods in `again`."""
    for entry, seed, overlap in runs:
        key = key_of(entry, seed, study, overlap)
        # Read every time: another command may have written meanwhile.
        if key in study.kept.read() and entry not in again:
            continue
        study.kept.refuse_to_measure(key)
        words = f"seed {seed}, overlap {overlap:g}: {entry}"
        try:
            result = apart(entry, seed, study, overlap)
        except subprocess.CalledProcessError:
            print(words, "failed", flush=True)
            continue
        study.kept.add(key, result)
        print(words, {name: round(value, 4) for name, value in result.items() if isinstance(value, float)}, flush=True)


def found(study: Study, runs: list[tuple[str, int, float]], overlap: float) -> Results:
    """The kept runs of every method that has any."""
    kept, results = study.kept.read(), {}
    for entry in METHODS:
        keys = {seed: key_of(entry, seed, study, overlap) for other, seed, o in runs if other == entry and o == overlap}
        if several := [
            study.kept.once(key, partial(apart, entry, seed, study, overlap)) for seed, key in keys.items() if key in kept
        ]:
            results[entry] = several
    return results


# -- the page --------------------------------------------------------------------------------------


def about_data(study: Study) -> str:
    shape = gravity_spy.Shape()
    sizes = [round(study.scale * size) for size in (gravity_spy.N_ITEMS, gravity_spy.N_VOTES, gravity_spy.N_ANNOTATORS)]
    return (
        f"Made-up data like Gravity Spy's (`benchmarks/gp/gravity_spy.py`): {sizes[0]:,} training items with "
        f"{gravity_spy.N_FEATURES} features, {sizes[1]:,} votes by {sizes[2]:,} volunteers, {gravity_spy.K} classes, from "
        f"26% to 0.9% of {gravity_spy.N_TEST:,} test items; in training their shares to the power {shape.training_power}. "
        f"{100 * shape.other_votes:.1f}% of the votes are for Other, {100 * shape.repeats:.0f}% by someone who has voted on "
        f"the item already; overlap {', '.join(f'{overlap:g}' for overlap in study.overlaps)}. "
    )


def about_methods(study: Study) -> str:
    if study.epochs:
        epochs = f"{study.epochs} epochs" + (
            " (the first half of svgpcr-nf's are svgpcr's)" if "flows" in study.section else ""
        )
    else:
        epochs = (
            f"{EPOCHS['svgpcr']} epochs (svgpcr-nf {EPOCHS['svgpcr-nf']}, the first half of which are svgpcr's; gpnetcr "
            f"{EPOCHS['gpnetcr']})"
        )
    return (
        f"Gaussian processes: batches of 500, {epochs}, float64, inducing points move after {EARLIER['frozen']}; all else is "
        'default, so the likelihood is chosen by held-out votes (`likelihood="auto"`) and its share of errors or temperature '
        "learned. Networks: all defaults (float32, early stopping on the votes of a tenth of the items, then a refit). Seeds "
        "count from 0; mean ± half width of the 95% interval over seeds.\n\n"
    )


QUESTIONS = {
    "full": "",
    "fifth": "![Accuracy and mean probability of the true class by M, and accuracy by time](images/gp-ligo-m.png)\n\n",
    "flows": "Figure 15 of the paper has M = 100, the full size and ten runs; it finds L = 9 best.\n\n"
    "![Scores by the length of the flow](images/gp-flows.png)\n\n",
    "overlap": "Overlap scales how many items lie between two classes; a share above one is all items of a class. A seed has "
    "the same items.\n\n",
}


CLOSER = (
    f"\n**Single test items**, seed 0. Of {N_SAMPLED} drawn at random: the one where svgpcr leads most, by the log-probability "
    "of the true class less the mean of both networks'; the one where the networks lead most; and the first two that were "
    "drawn. (The paper shows four of those that contribute most to the lead of svgpcr.) The true class is red.\n\n"
    "![Predictive distributions of three methods for four test items](images/gp-ligo-distributions.png)\n\n"
    f"**Single volunteers**, seed 0. Of those with at least {ENOUGH} votes who are right in half of the cases or more (mean "
    "over classes), by their true matrices: who says Violin for 1400Ripple most often, 1400Ripple for Violin, Koifish for "
    "Blip, and Other for all other classes, the habits that the paper describes; and who has nearest to 200 votes. The matrix "
    "of crowd-layer-mw is what its layer makes of a network that is certain.\n\n"
    "![True and estimated confusion matrices of five volunteers](images/gp-ligo-matrices.png)\n"
)


def looked_at(results: Results) -> bool:
    """Whether the runs are there of which single items and volunteers are drawn: those of seed 0, which come first."""
    return all(entry in results and "sampled" in results[entry][0] for entry in CLOSELY)


def page_text(name: str, study: Study, results: dict[float, Results]) -> str:
    text = provenance(f"python -m benchmarks run gp_ligo --study {name}", study.kept) + "\n"
    text += about_data(study) + about_methods(study) + QUESTIONS[name]
    if name == "overlap":
        return text + overlap_table(results)
    (one,) = results.values()
    text += flows_table(one) if name == "flows" else tables(one)
    return text + (CLOSER if name == "fifth" and looked_at(one) else "")


def draw(name: str, study: Study, results: Results, folder: Path) -> None:
    from benchmarks.gp import gp_ligo_pictures as pictures

    folder.mkdir(exist_ok=True, parents=True)
    if name == "flows":
        pictures.draw_flows(results, folder / "gp-flows.png")
    if name == "fifth":
        pictures.draw_sizes(results, folder / "gp-ligo-m.png")
        if looked_at(results):
            data = gravity_spy.made(0, study.scale, shape=gravity_spy.Shape(overlap=study.overlaps[0]))
            pictures.draw_distributions(results, data, folder / "gp-ligo-distributions.png")
            pictures.draw_matrices(results, data, folder / "gp-ligo-matrices.png")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--study", choices=STUDIES, default="full")
    options.add_argument("--methods", nargs="*", choices=METHODS, metavar="METHOD", help="others than the study's")
    options.add_argument("--seeds", nargs="*", type=int, help="others than the study's")
    options.add_argument("--scale", type=float, help="share of items, volunteers and votes, if not the study's; at least 0.02")
    options.add_argument("--overlap", type=float, help="of the classes: 0 is none, 1 the usual")
    options.add_argument("--epochs", type=int, help="of the Gaussian processes, to try others than the study's")
    options.add_argument("--again", nargs="*", default=[], choices=METHODS, metavar="METHOD", help="measure these again")
    options.add_argument("--kept", action="store_true", help="measure nothing, report the runs there are")
    options.add_argument("--dry-run", action="store_true", help="print the tables, write neither page nor pictures")
    options.add_argument("--pictures", type=Path, metavar="FOLDER", help="draw the pictures there, also with --dry-run")
    options.add_argument("--one", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.one:
        print(json.dumps(run(*json.loads(given.one))))
        return
    study = STUDIES[given.study]
    asked = given.scale is None and given.overlap is None and given.epochs is None
    if not asked and not given.dry_run:
        raise SystemExit("only a study with its own size, overlap and epochs is written to the page; add --dry-run")
    if not asked:
        overlaps = study.overlaps if given.overlap is None else (given.overlap,)
        scale, epochs = given.scale or study.scale, given.epochs or study.epochs
        study = replace(study, scale=scale, overlaps=overlaps, epochs=epochs, kept=TRIALS)
    measured = wanted(study, given.methods or list(study.seeds), given.seeds)
    if not given.kept:
        measure(study, measured, given.again)
    # The page shows all runs of the study, whichever of them this command was asked for.
    shown = measured if given.dry_run else wanted(study, list(METHODS), None)
    results = {overlap: found(study, shown, overlap) for overlap in study.overlaps}
    text = page_text(given.study, study, results)
    folder = given.pictures or (None if given.dry_run else IMAGES)
    if folder:
        draw(given.study, study, results[study.overlaps[0]], folder)
    if given.dry_run:
        print("" if asked else "A trial with other data or settings than the study.\n\n", text)
    else:
        put(study.section, text)


if __name__ == "__main__":
    main()
