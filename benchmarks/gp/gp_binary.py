"""Two classes, more and more items: SVGPCR beside the methods it is to replace (Morales-Alvarez et al. 2020, 4.2).

    python -m benchmarks run gp_binary                       # 1,000 to 100,000 items, three seeds, written to its page
    python -m benchmarks run gp_binary --sizes 1000 --seeds 0 --scale 0.02 --dry-run

Is a glitch "Other" or any of the other types? Data of gravity_spy.py: the first N items of a set and all test items, so that
volunteers have more votes as N grows. A run has a process and one thread of its own. One that takes more than `--limit`
seconds of the processor or more memory than `--memory` is stopped, and its method with it: larger N are not tried, and the
table says where it ended. So nobody has to guess where the cube of the items is no longer feasible.

Runs are kept in benchmarks/records/gp_binary.jsonl, stopped ones too, so that an interrupted command continues where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import warnings
from dataclasses import fields, replace
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from benchmarks.declaration import Benchmark
from benchmarks.gp import gravity_spy
from benchmarks.page import IMAGES, interval, provenance, put, table
from benchmarks.records import KEPT, Records
from crowdwise.data.annotations import Annotations

BENCHMARK = Benchmark(
    "How far do Gaussian processes for two classes go as items grow?",
    sections=("gp binary",),
    packages=("torch",),
    renders=("--kept",),
    quick="--sizes 300 --seeds 0 --scale 0.02 --dry-run --methods raykar",
)

SIZES, SEEDS = (1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000), range(3)
METHODS: dict[str, dict[str, Any]] = {
    "svgpcr": {"inducing": 50, "batch_size": 500},
    "svgpcr, robust-max": {"inducing": 50, "batch_size": 500, "likelihood": "robust-max"},
    "vgpcr": {},
    "rodr14": {},
    "raykar": {},
    "yan": {},
    "rff": {},
    "vff": {},
}
LIMIT, MEMORY = 300.0, 8.0
MADE = KEPT
RUNS = Records("gp_binary")
PICTURE = IMAGES / "gp-binary.png"
# Heading: name, factor, digits.
MARKS = {
    "AUC": ("auc", 100, 2),
    "NLL": ("nll", 1, 4),
    "accuracy": ("accuracy", 100, 2),
    "mean probability of the true class": ("mean probability", 100, 2),
    "processor seconds": ("processor", 1, 1),
}


def run(name: str, settings: dict[str, Any], size: int, seed: int, scale: float) -> dict[str, Any]:
    """Fit one method to the first items of a set and measure it on all test items."""
    import crowdwise
    from crowdwise.trust.metrics import accuracy, auc, log_loss, mean_true_probability

    warnings.simplefilter("ignore", crowdwise.errors.CrowdwiseWarning)
    data = kept_set(seed, scale)
    some = data.votes.take_items(np.arange(size))
    votes = replace(some, label=(some.label == gravity_spy.OTHER).astype(some.label.dtype), classes=np.array(["any", "Other"]))
    model = crowdwise.make(name.partition(",")[0], **settings)
    if hasattr(model, "scaling"):
        model.scaling = "columns"  # as in gp_ligo.py
    if hasattr(model, "random_state"):
        model.random_state = seed
    started = process_time()
    model.fit(data.X[:size], votes)
    processor = process_time() - started
    known = model.classes_.tolist()
    proba = model.predict_proba(data.X_test)[:, [known.index("any"), known.index("Other")]]
    truth = (data.truth_test == gravity_spy.OTHER).astype(int)
    return {
        "auc": auc(proba, truth),
        "nll": log_loss(proba, truth),
        "accuracy": accuracy(proba, truth),
        "mean probability": mean_true_probability(proba, truth),
        "processor": processor,
    }


def kept_set(seed: int, scale: float) -> gravity_spy.GravitySpy:
    """The set of a seed, made once: to make it takes longer than most methods do."""
    path = MADE / f"gravity-spy-{gravity_spy.EDITION}-{seed}-{scale}"
    if not (path / "done").exists():
        data = gravity_spy.made(seed, scale)
        path.mkdir(parents=True, exist_ok=True)
        votes = {
            name: getattr(data.votes, name) for name in ("item_ptr", "annotator", "label", "items", "annotators", "classes")
        }
        for name, array in (vars(data) | votes).items():
            if name != "votes":
                np.save(path / f"{name}.npy", array)
        (path / "done").touch()
    found = {file.stem: np.load(file, mmap_mode="r") for file in path.glob("*.npy")}
    own = {field.name for field in fields(gravity_spy.GravitySpy)} - {"votes"}
    votes = Annotations(**{name: np.array(array) for name, array in found.items() if name not in own})
    return gravity_spy.GravitySpy(votes=votes, **{name: found[name] for name in own})


# -- all runs ------------------------------------------------------------------------------------


def key_of(name: str, size: int, seed: int, scale: float) -> str:
    return json.dumps([name, METHODS[name], size, seed, scale, gravity_spy.EDITION], sort_keys=True)


def attempt(name: str, size: int, seed: int, scale: float, limit: float, memory: float) -> dict[str, Any] | None:
    """One run in a process of its own: its measures, why it was stopped, or nothing where it failed otherwise."""
    given = json.dumps([name, METHODS[name], size, seed, scale])
    kept_set(seed, scale)

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (int(memory * 2**30),) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 5))

    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    command = [sys.executable, "-m", __spec__.name, "--one", given]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | threads, preexec_fn=bounded, check=False)
    if done.returncode == -signal.SIGXCPU:
        return {"stopped": f"more than {limit:,.0f} processor s"}
    if done.returncode == 0:
        return dict(json.loads(done.stdout.splitlines()[-1]))
    if any(words in done.stderr.lower() for words in ("memoryerror", "allocate memory", "not enough memory")):
        return {"stopped": f"more than {memory:g} GB"}
    print(done.stderr[-2000:], file=sys.stderr)
    return None


def ended(runs: dict[str, Any], name: str, sizes: list[int], seeds: list[int], scale: float) -> tuple[int, str] | None:
    """The smallest size at which a method was stopped with any seed, and why."""
    for size in sizes:
        for seed in seeds:
            one = runs.get(key_of(name, size, seed, scale), {})
            if "stopped" in one:
                return size, one["stopped"]
    return None


def measure(names: list[str], sizes: list[int], seeds: list[int], scale: float, limit: float, memory: float) -> None:
    """Run what is not kept, small sizes first."""
    for size in sizes:
        for seed in seeds:
            for name in names:
                stop = ended(RUNS.read(), name, sizes, seeds, scale)
                key = key_of(name, size, seed, scale)
                if key in RUNS.read() or (stop is not None and size >= stop[0]):
                    continue
                result = attempt(name, size, seed, scale, limit, memory)
                print(f"N = {size:,}, seed {seed}, {name}: {result or 'failed'}", flush=True)
                if result is not None:
                    RUNS.add(key, result)


# -- table and picture -----------------------------------------------------------------------------


def collected(
    names: list[str], sizes: list[int], seeds: list[int], scale: float
) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """Runs that came to an end, by method and size."""
    runs = RUNS.read()
    found = {
        (name, size): [runs[key] for seed in seeds if (key := key_of(name, size, seed, scale)) in runs]
        for name in names
        for size in sizes
    }
    return {which: done for which, several in found.items() if (done := [one for one in several if "auc" in one])}


def text_of(names: list[str], sizes: list[int], seeds: list[int], scale: float) -> str:
    """Heading, settings, table, and where methods were stopped."""
    found = collected(names, sizes, seeds, scale)
    rows = [
        [name, f"{size:,}", str(len(several)), *(interval([one[key] for one in several], *how) for key, *how in MARKS.values())]
        for (name, size), several in found.items()
    ]
    stops = {name: ended(RUNS.read(), name, sizes, seeds, scale) for name in names}
    words = "; ".join(f"{name} at N = {stop[0]:,} ({stop[1]})" for name, stop in stops.items() if stop is not None)
    asked = "" if tuple(sizes) == SIZES else f" --sizes {' '.join(map(str, sizes))}"
    return (
        "### Two classes, more and more items\n\n"
        + provenance(f"python -m benchmarks run gp_binary{asked}", RUNS)
        + f'\n"Other" or not, on the first N of {round(scale * gravity_spy.N_ITEMS):,} items made up like Gravity Spy\'s, and '
        f"{gravity_spy.N_TEST:,} test items. AUC, accuracy and the mean probability of the true class (the paper's likelihood, "
        "an improper score) in percent. svgpcr: 50 inducing points, batches of 500, every column standardised; all else is "
        "default. One thread. Mean ± "
        f"half width of the 95% interval over seeds {', '.join(map(str, seeds))}. Stopped: {words or 'none'}.\n\n"
        + table(["method", "N", "runs", *MARKS], rows)
    )


def draw(found: dict[tuple[str, int], list[dict[str, Any]]], target: Path) -> None:
    """Seconds and AUC by N, means over seeds; both axes of the first are logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2))
    for name in dict.fromkeys(name for name, _ in found):
        sizes = [size for other, size in found if other == name]
        for axis, key in zip(axes, ("processor", "auc"), strict=True):
            axis.plot(sizes, [np.mean([one[key] for one in found[name, size]]) for size in sizes], marker="o", label=name)
    for axis, label in zip(axes, ("processor seconds of training", "test AUC"), strict=True):
        axis.set_xscale("log")
        axis.set_xlabel("N, training items")
        axis.set_ylabel(label)
        axis.grid(color="#eeeeee")
    axes[0].set_yscale("log")
    axes[0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    target.parent.mkdir(exist_ok=True)
    figure.savefig(target, dpi=110)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS, metavar="METHOD")
    options.add_argument("--sizes", nargs="*", type=int, default=list(SIZES))
    options.add_argument("--seeds", nargs="*", type=int, default=list(SEEDS))
    options.add_argument("--scale", type=float, default=1.0, help="of the set that the items are taken from")
    options.add_argument("--limit", type=float, default=LIMIT, help="processor seconds of a run")
    options.add_argument("--memory", type=float, default=MEMORY, help="gigabytes of a run")
    options.add_argument("--kept", action="store_true", help="measure nothing, report the runs there are")
    options.add_argument("--dry-run", action="store_true", help="print the table, write neither page nor picture")
    options.add_argument("--picture", type=Path, help="draw the picture here, also with --dry-run")
    options.add_argument("--one", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.one:
        print(json.dumps(run(*json.loads(given.one))))
        return
    if max(given.sizes) > given.scale * gravity_spy.N_ITEMS:
        raise SystemExit(f"a set of scale {given.scale} has no {max(given.sizes):,} items")
    if given.scale != 1 and not given.dry_run:
        raise SystemExit("only items of the full set are written to the page; add --dry-run")
    sizes = sorted(given.sizes)
    if not given.kept:
        measure(given.methods, sizes, given.seeds, given.scale, given.limit, given.memory)
    picture = given.picture or (None if given.dry_run else PICTURE)
    if picture:
        draw(collected(given.methods, sizes, given.seeds, given.scale), picture)
    text = text_of(given.methods, sizes, given.seeds, given.scale)
    if given.dry_run:
        print(text)
    else:
        put("gp binary", text + "\n\n![Seconds of training and AUC by N](images/gp-binary.png)")


if __name__ == "__main__":
    main()
