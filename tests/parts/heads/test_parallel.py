"""Two processes that train together give what one process gives, through the same `fit`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.engines.gradient.helpers import quiet, small_crowd
from torch import nn

from crowdwise.errors import InputError
from crowdwise.estimator.registry import make_classifier
from crowdwise.parts.heads.batch import VoteList
from crowdwise.parts.heads.parallel import Group

pytestmark = pytest.mark.slow

FEATURES, VOTES = small_crowd(n_items=59)
IMAGES = np.random.default_rng(0).random((59, 1, 8, 8))
# No dropout: processes draw masks of their own.
FAST: dict[str, Any] = {"epochs": 3, "warmup": 1, "batch_size": 16, "init": "majority", "dropout": 0.0}

# Trial fits choose these; every one of them is trained by the same loop.
GIVEN = {"likelihood": "robust-max", "scaling": "columns"}


def features_network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "ccem": ("ccem", {}),
    "votes of an item together": ("ccem", {"likelihood": "items", "class_weight": "balanced"}),
    "batches that do not divide": ("ccem", {"batch_size": 7}),
    "single precision": ("ccem", {"precision": "float32"}),
    "clipping and one-cycle": ("ccem", {"clip": 0.1, "scheduler": "one-cycle", "optimizer": "sgd"}),
    "early stopping": ("ccem", {"epochs": 20, "learning_rate": 0.05, "patience": 2, "validation": 0.3}),
    "own network": ("ccem", {"network": features_network}),
    "volume of the batch": ("geocrowdnet-f", {"penalty_from": 0, "rise": 0, "strength": 0.1}),
    "crowd layer": ("crowd-layer-mw", {}),
    "em in odd batches": ("aggnet", {"batch_size": 5, "clip": 1.0}),
    "mutual information": ("maxmig", {}),
    "a network trained again": ("mbem", {}),
    "outliers": ("coinnet", {}),
    "features of the network": ("instance-confusion", {}),
    "one union": ("union-net", {}),
    "mixed votes": ("annot-mix", {"batch_size": 7}),
    "traits of items and annotators": ("conal", {}),
    "Dirichlet counts in odd batches": ("bayes-dgc", {"batch_size": 7, "class_weight": "balanced", "class_shares": True}),
    "Dirichlet counts in batches of one": ("bayes-dgc", {"batch_size": 1, "epochs": 2}),
    "natural steps of Dirichlets": ("bayes-dgc", {"steps": "natural"}),
    "mean field of confusion matrices": ("deep-mf", {"family": "confusion", "batch_size": 7}),
    "a Gaussian process": ("svgpcr", GIVEN | {"inducing": 6, "frozen": 1}),
    "kernels of classes": ("svgpcr", GIVEN | {"inducing": 6, "frozen": 1, "class_kernels": "own", "batch_size": 7}),
    "a process that the optimiser moves": ("svgpcr", GIVEN | {"inducing": 6, "frozen": 1, "posterior_steps": "optimizer"}),
}
# Running averages of batch normalisation depend on who saw which rows; the processes must agree all the same.
AGREED: dict[str, tuple[str, dict[str, Any]]] = {
    "no seed": ("ccem", {"random_state": None}),
    "dropout": ("ccem", {"dropout": 0.5}),
    "batch normalisation": ("ccem", {"network": "cnn"}),
    "em with batch normalisation": ("aggnet", {"network": "cnn"}),
    "draws of flows": ("svgpcr-nf", GIVEN | {"inducing": 6, "layers": 2, "draws": 4, "base": 0.3}),
    "points of an inference network": ("gpnetcr", GIVEN | {"hidden": 10, "measured": 6, "hold": 2}),
}


def available(cases: dict[str, tuple[str, dict[str, Any]]]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Cases of the methods that there are."""
    found = {}
    for case, (name, settings) in cases.items():
        try:
            make_classifier(name)
        except ImportError:
            continue
        found[case] = (name, settings)
    return found


def fitted(case: str, gold: bool = True, **more: Any) -> Any:
    name, settings = (CASES | AGREED)[case]
    features = IMAGES if settings.get("network") == "cnn" else FEATURES
    known = make_classifier(name).get_params()
    chosen = {key: value for key, value in (FAST | settings | more).items() if key in known}
    with quiet():
        return make_classifier(name, **chosen).fit(features, VOTES, gold={3: 1, 8: 2} if gold else None)


def summary(model: Any) -> dict[str, np.ndarray]:
    state = {f"network.{name}": value.numpy() for name, value in model.network_.state_dict().items()}
    numbers = {"loss": model.history_["loss"], "held_out": model.history_["held_out"], "best": model.history_["best_epoch"]}
    arrays = {"posterior": model.result_.model_posterior, "confusion": model.confusion_}
    return state | {name: np.asarray(value) for name, value in (numbers | arrays).items()}


def as_process(rank: int, folder: Path) -> None:
    """What each of the two processes runs."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2)
    for case in available(CASES | AGREED):
        np.savez(folder / f"{case}.{rank}.npz", **summary(fitted(case)))
    np.savez(folder / f"checkpointed.{rank}.npz", **summary(interrupted_and_resumed(folder, rank)))
    refused = ""
    try:
        # Only the first process has the file that it wrote.
        interrupted(checkpoint=folder / f"own.{rank}")
        fitted("ccem", checkpoint=folder / f"own.{rank}")
    except (InputError, RuntimeError) as problem:
        refused = str(problem)
    (folder / f"refused.{rank}").write_text(refused)


def interrupted(**settings: Any) -> None:
    def stop(number: int, objective: float, judged: float) -> None:
        if number == 2:
            raise KeyboardInterrupt

    name, more = CASES["ccem"]
    try:
        make_classifier(name, **(FAST | more | settings)).fit(FEATURES, VOTES, gold={3: 1, 8: 2}, progress=stop)
    except KeyboardInterrupt:
        return
    raise AssertionError("not interrupted")


def interrupted_and_resumed(folder: Path, rank: int) -> Any:
    path = folder / "shared.checkpoint"
    interrupted(checkpoint=path)
    # Both have stopped before either continues; else the first could overwrite what the second compares.
    torch.distributed.barrier()
    (folder / f"before.{rank}").write_text(str(path.exists()))
    return fitted("ccem", checkpoint=path)


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    code = "import sys; from pathlib import Path; from tests.parts.heads.test_parallel import as_process; "
    # Threads of gloo that wait for a peer which has left abort the interpreter on its way out: it leaves without tidying up.
    code += "as_process(int(sys.argv[1]), Path(sys.argv[2])); import os; os._exit(0)"
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    root = Path(__file__).resolve().parents[3]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(rank), str(folder)], stderr=subprocess.PIPE, text=True, env=environment, cwd=root
        )
        for rank in range(2)
    ]
    try:
        errors = [process.communicate(timeout=600)[1] for process in running]
    finally:
        for process in running:
            process.kill()
    for rank, (process, error) in enumerate(zip(running, errors, strict=True)):
        assert process.returncode == 0, f"process {rank}: {error[-3000:]}"
    return folder


def of_rank(folder: Path, case: str, rank: int) -> dict[str, np.ndarray]:
    with np.load(folder / f"{case}.{rank}.npz") as file:
        return dict(file)


@pytest.mark.parametrize("case", available(CASES))
def test_two_processes_give_the_result_of_one(two_processes: Path, case: str) -> None:
    alone = summary(fitted(case))
    tolerance = 1e-3 if CASES[case][1].get("precision") == "float32" else 1e-7
    for rank in range(2):
        together = of_rank(two_processes, case, rank)
        assert together.keys() == alone.keys()
        for name, value in alone.items():
            np.testing.assert_allclose(
                together[name], value, rtol=tolerance, atol=tolerance, err_msg=f"{name} of process {rank}"
            )


@pytest.mark.parametrize("case", available(CASES | AGREED))
def test_the_processes_agree_to_the_bit(two_processes: Path, case: str) -> None:
    first, second = (of_rank(two_processes, case, rank) for rank in range(2))
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], err_msg=name)


def test_a_run_of_two_processes_resumes_from_one_checkpoint(two_processes: Path) -> None:
    for rank in range(2):
        assert (two_processes / f"before.{rank}").read_text() == "True"
        resumed, whole = of_rank(two_processes, "checkpointed", rank), of_rank(two_processes, "ccem", rank)
        for name, value in whole.items():
            np.testing.assert_array_equal(resumed[name], value, err_msg=name)
    assert not (two_processes / "shared.checkpoint").exists()


def test_only_the_first_process_writes_and_a_process_without_the_file_says_so(two_processes: Path) -> None:
    assert "not the checkpoint that the first process has" in (two_processes / "refused.1").read_text()
    assert (two_processes / "own.0").exists()
    assert not (two_processes / "own.1").exists()


def test_a_process_alone_pays_nothing() -> None:
    group, rows = Group(), torch.arange(6)
    assert (group.rank, group.size) == (0, 1)
    assert group.share(rows) is rows
    assert group.gather(rows, 6) is rows
    assert group.same_number(7) == 7
    batch = next(VoteList(VOTES, torch.float64, torch.device("cpu")).batches(torch.arange(59), 59))
    assert group.part(batch) is batch
    assert group.sum(rows) is rows


def test_the_parts_of_a_batch_have_every_row_and_every_vote_once() -> None:
    group, weight = Group(), np.linspace(1, 2, 59)
    order = torch.randperm(59, generator=torch.Generator().manual_seed(0))
    batch = next(VoteList(VOTES, torch.float64, torch.device("cpu"), weight).batches(order, 59))
    group.size, votes, rows = 3, [], []
    for group.rank in range(3):
        part = group.part(batch)
        # A vote belongs to its item, wherever the item has gone.
        np.testing.assert_array_equal(part.rows[part.position], VOTES.item[part.vote])
        np.testing.assert_array_equal(part.entry, VOTES.annotator[part.vote] * 3 + VOTES.label[part.vote])
        np.testing.assert_allclose(part.item_weight, weight[part.rows])
        np.testing.assert_allclose(part.weight, weight[VOTES.item[part.vote]])
        votes += part.vote.tolist()
        rows += part.rows.tolist()
    assert sorted(votes) == list(range(VOTES.n_votes))
    assert sorted(rows) == list(range(59))
