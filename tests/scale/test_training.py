"""A classifier trained by several processes is the one that a single process trains, whoever starts them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import psutil
import pytest
import scipy.sparse
import torch
from tests.engines.gradient.helpers import quiet, small_crowd
from torch import nn
from typer.testing import CliRunner

import crowdwise
from crowdwise.cli import app
from crowdwise.errors import CrowdwiseError, InputError, MissingExtraError, SettingError
from crowdwise.estimator.registry import make_classifier
from crowdwise.scale import training_ray
from crowdwise.scale.cluster import connect
from crowdwise.scale.training import Torchrun, _said, prepared, worker_environment
from crowdwise.scale.training_files import read_data, read_task, write_estimator, write_task
from crowdwise.scale.training_outcome import Listener, raise_problem, reporter, write_problem
from crowdwise.scale.training_ray import RayTrain

X, VOTES = small_crowd(n_items=59)
GOLD = {3: 1, 8: 2}
# No dropout: processes draw masks of their own.
FAST: dict[str, Any] = {"epochs": 5, "warmup": 1, "batch_size": 16, "init": "majority", "dropout": 0.0}
CASES: dict[str, dict[str, Any]] = {
    "ccem": {"network": partial(nn.Linear, 4, 3)},
    "svgpcr": {"inducing": 6, "frozen": 1, "patience": 2, "validation": 0.3, "likelihood": "robust-max", "scaling": "columns"},
}


def made(name: str, **more: Any) -> Any:
    known = make_classifier(name).get_params()
    settings = FAST | CASES.get(name, {}) | more
    return make_classifier(name, **{key: value for key, value in settings.items() if key in known})


def check_same(together: Any, alone: Any) -> None:
    assert together.labels_.tolist() == alone.labels_.tolist()
    np.testing.assert_allclose(together.posterior_, alone.posterior_, rtol=0, atol=1e-7)
    np.testing.assert_allclose(together.confusion_, alone.confusion_, rtol=0, atol=1e-7)
    np.testing.assert_allclose(together.predict_proba(X), alone.predict_proba(X), rtol=0, atol=1e-7)
    np.testing.assert_allclose(together.history_["loss"], alone.history_["loss"], rtol=1e-7)
    assert (together.n_iter_, together.converged_) == (alone.n_iter_, alone.converged_)
    assert together.result_.settings == alone.result_.settings
    assert together.result_.items_frame()["item"].to_list() == alone.result_.items_frame()["item"].to_list()


# -- torchrun and Ray ----------------------------------------------------------------------------


@pytest.mark.slow
def test_two_processes_of_torchrun_train_what_one_trains(tmp_path: Path) -> None:
    """With held-out votes and inducing points to share. The command below trains ccem, test_parallel.py all heads."""
    name = "svgpcr"
    heard: list[int] = []
    with quiet():
        alone = made(name).fit(X, VOTES, gold=GOLD)
        together = made(name).fit(
            X, VOTES, gold=GOLD, engine=Torchrun(2), progress=lambda number, objective, judged: heard.append(number)
        )
    check_same(together, alone)
    assert heard[: alone.n_iter_] == list(range(1, alone.n_iter_ + 1))
    together.save(tmp_path / "model")
    again = crowdwise.load(tmp_path / "model")
    assert (again.predict_proba(X) == together.predict_proba(X)).all()


@pytest.fixture(scope="module")
def ray_here() -> Iterator[None]:
    """One cluster for the tests of this module: it takes seconds to start."""
    pytest.importorskip("ray.train")
    with connect(None, cpus=2):
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("ray_here")
def test_two_workers_of_ray_train_what_one_process_trains_and_lambdas_travel() -> None:
    # A frame, whose columns keep their names; and a function that only Ray can send.
    frame = pl.DataFrame(X, schema=list("abcd"), orient="row")
    settings: dict[str, Any] = {"network": lambda: nn.Linear(4, 3)}
    heard: list[int] = []
    with quiet():
        alone = made("ccem", **settings).fit(frame, VOTES, gold=GOLD)
        together = made("ccem", **settings).fit(
            frame, VOTES, gold=GOLD, engine=RayTrain(2), progress=lambda number, *_: heard.append(number)
        )
    np.testing.assert_allclose(together.posterior_, alone.posterior_, rtol=0, atol=1e-7)
    assert together.labels_.tolist() == alone.labels_.tolist()
    assert together.feature_names_in_.tolist() == list("abcd")
    assert heard[:5] == [1, 2, 3, 4, 5]


def test_an_error_in_a_worker_of_ray_is_the_error_of_the_fit(tmp_path: Path) -> None:
    """What a worker runs and who waits for it, in one process: another group of workers would take half a minute."""
    pytest.importorskip("ray.train")
    features, votes = prepared(made("ccem"), X, VOTES, None, None)
    write_task(features, votes, tmp_path, same_machine=True)

    class Here(RayTrain):
        def _trainer(self, estimator: Any, folder: Path) -> Any:
            return SimpleNamespace(fit=lambda: training_ray._work({"estimator": estimator, "folder": str(folder)}))

    with pytest.raises(SettingError, match="validation must be below 1"):
        Here(1)._run(made("ccem", validation=1.0), tmp_path, Listener(tmp_path, None), 0.0)


# -- what goes wrong -----------------------------------------------------------------------------


@pytest.mark.slow
def test_an_error_in_a_worker_is_the_error_of_the_fit() -> None:
    with pytest.raises(SettingError, match="validation must be below 1"):
        made("ccem", validation=1.0).fit(X, VOTES, engine=Torchrun(1))


@pytest.mark.slow
def test_an_interrupted_fit_leaves_no_process_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(number: int, objective: float, judged: float) -> None:
        assert len(processes_of(tmp_path)) >= 2
        raise KeyboardInterrupt

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        made("ccem", epochs=10**6).fit(X, VOTES, engine=Torchrun(2), progress=stop)
    deadline = time.monotonic() + 10
    while (left := processes_of(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left


def processes_of(folder: Path) -> list[int]:
    """Processes whose command names something in the folder, as those of an engine do."""
    every = ((process.pid, process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"]))
    return [number for number, command in every if any(str(folder) in part for part in command)]


@pytest.mark.parametrize("workers", [0, -1, 1.5, True])
@pytest.mark.parametrize("engine", [Torchrun, RayTrain])
def test_workers_are_a_whole_number_from_one(engine: Any, workers: Any) -> None:
    with pytest.raises(SettingError, match="workers must be a whole number >= 1"):
        made("ccem").fit(X, VOTES, engine=engine(workers))


def test_mistakes_in_the_data_are_found_before_a_worker_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    with pytest.raises(InputError, match="X has 58 rows"):
        made("ccem").fit(X[1:], VOTES, engine=Torchrun(2))


def test_a_lambda_cannot_be_sent_and_a_function_of_the_script_neither(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError, match="ccem: its settings cannot be sent to another process"):
        write_estimator(made("ccem", network=lambda: nn.Linear(4, 3)), tmp_path)

    class Script:
        pass

    Script.__module__, Script.__qualname__ = "__main__", "Script"
    monkeypatch.setattr(sys.modules["__main__"], "Script", Script, raising=False)
    with pytest.raises(SettingError, match="defined in the script"):
        write_estimator(made("ccem", optimizer=Script), tmp_path)


def test_methods_that_are_not_trained_by_batches_are_refused() -> None:
    with pytest.raises(SettingError, match="raykar is not trained batch by batch"):
        make_classifier("raykar").fit(X, VOTES, engine=Torchrun(2))


def test_ray_that_is_not_installed_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'crowdwise\[scale\]'"):
        made("ccem").fit(X, VOTES, engine=RayTrain(2))


def test_a_cluster_needs_a_folder_that_all_nodes_see(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="storage: name a folder"):
        made("ccem").fit(X, VOTES, engine=RayTrain(2, address="127.0.0.1:1"))
    with pytest.raises(SettingError, match="is not a folder"):
        made("ccem").fit(X, VOTES, engine=RayTrain(2, storage=tmp_path / "none"))


# -- files ---------------------------------------------------------------------------------------


def test_votes_and_features_of_every_kind_arrive_as_they_were(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    sparse = scipy.sparse.csr_matrix(X)
    for number, given in enumerate((X, X.astype(np.float32), torch.tensor(X), mapped, mapped[3:], sparse)):
        folder = tmp_path / str(number)
        folder.mkdir()
        write_task(given, VOTES.with_gold(GOLD), folder)
        features, votes = read_data(folder)
        assert isinstance(features, type(given))
        assert features.dtype == given.dtype
        dense = features.toarray() if number == 5 else np.asarray(features)
        np.testing.assert_array_equal(dense, given.toarray() if number == 5 else np.asarray(given))
        for name in ("item_ptr", "annotator", "label", "gold", "annotators", "classes"):
            np.testing.assert_array_equal(getattr(votes, name), getattr(VOTES.with_gold(GOLD), name))
    # The file that is mapped is found again, and not copied.
    assert not (tmp_path / "3" / "features.npy").exists()


def test_soft_votes_arrive_as_soft_ones(tmp_path: Path) -> None:
    soft = crowdwise.Annotations.from_probabilities(np.arange(59), ["y"] * 59, np.full((59, 2), 0.5), classes=[0, 1])
    write_task(X, soft, tmp_path)
    votes = read_data(tmp_path)[1]
    assert votes.soft
    np.testing.assert_array_equal(votes.weights, soft.weights)


def test_a_dataset_and_a_type_that_numpy_lacks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="a dataset, dict or stream cannot be sent"):
        write_task([1, 2], VOTES, tmp_path)
    with pytest.raises(SettingError, match="make it float32"):
        write_task(torch.zeros(59, 4, dtype=torch.bfloat16), VOTES, tmp_path)


def test_an_estimator_that_was_changed_on_the_way_is_not_opened(tmp_path: Path) -> None:
    write_task(X, VOTES, tmp_path)
    digest = write_estimator(made("ccem", epochs=7), tmp_path)
    assert read_task(tmp_path, digest)[0].epochs == 7
    write_estimator(made("ccem", epochs=8), tmp_path)
    with pytest.raises(InputError, match="not what the starting process wrote"):
        read_task(tmp_path, digest)


def test_the_error_of_crowdwise_is_raised_rather_than_those_that_follow_from_it(tmp_path: Path) -> None:
    write_problem(RuntimeError("connection closed by peer"), 0, tmp_path)
    with pytest.raises(CrowdwiseError, match="a worker failed: RuntimeError: connection closed"):
        raise_problem(tmp_path, "unknown")
    write_problem(InputError("row 7 is odd"), 1, tmp_path)
    with pytest.raises(InputError, match=r"^row 7 is odd$"):
        raise_problem(tmp_path, "unknown")


def test_a_worker_that_said_nothing_is_explained_by_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "stderr").write_text("traceback : Signal 9\n  exitcode  : -9 (pid: 12)\n")
    assert _said(tmp_path) == "a worker was ended by SIGKILL; perhaps it was out of memory"
    (tmp_path / "stderr").write_text("first\nlast words\n\n")
    assert _said(tmp_path) == "the workers could not be started: last words"


def test_progress_is_passed_on_line_by_line_and_a_request_to_stop_is_heard(tmp_path: Path) -> None:
    heard: list[tuple[int, float, float]] = []
    listener = Listener(tmp_path, lambda *told: heard.append(told))
    tell, other = reporter(tmp_path, first=True), reporter(tmp_path, first=False)
    tell(1, -0.5, 0.25)
    other(1, -0.5, 0.25)
    listener.poll()
    tell(2, -0.25, 0.125)
    listener.poll()
    assert heard == [(1, -0.5, 0.25), (2, -0.25, 0.125)]
    (tmp_path / "stop").touch()
    with pytest.raises(KeyboardInterrupt):
        other(3, 0.0, 0.0)


def test_workers_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("CROWDWISE_THREADS", "8")
    assert worker_environment(3)["OMP_NUM_THREADS"] == "2"
    assert worker_environment(100)["OMP_NUM_THREADS"] == "1"
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert worker_environment(3)["OMP_NUM_THREADS"] == "1"


# -- the command line ----------------------------------------------------------------------------

TRAIN = ["train", "votes.csv", "--features", "X.npz", "--set", "epochs=3", "--set", "dropout=0.0"]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    frame = VOTES.to_frame()
    frame.with_columns(pl.col("item").cast(pl.String)).write_csv("votes.csv")
    np.savez("X.npz", X=X, items=np.arange(len(X)).astype(str))
    return tmp_path


@pytest.mark.slow
def test_the_command_trains_in_two_processes_and_says_things_once(files: Path) -> None:
    def run(*command: str) -> str:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        return done.stderr

    assert CliRunner().invoke(app, [*TRAIN, "--method", "ccem", "-o", "alone.csv"]).exit_code == 0
    launched = run("torch.distributed.run", "--nproc-per-node", "2", "-m", "crowdwise", *TRAIN, "--save", "m", "-o", "two.csv")
    assert launched.count("wrote two.csv: 59 items") == 1
    assert launched.count("ccem: 3 epochs") == 1
    found, expected = pl.read_csv("two.csv"), pl.read_csv("alone.csv")
    assert found["label"].to_list() == expected["label"].to_list()
    np.testing.assert_allclose(found["confidence"], expected["confidence"], atol=1e-6)
    assert crowdwise.load("m").name == "ccem"


def test_the_command_starts_the_workers_it_is_asked_for(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    class Recorded(Torchrun):
        def train(self, *given: Any, **options: Any) -> None:
            asked.append(self.workers)
            raise InputError("that is all")

    monkeypatch.setattr("crowdwise.scale.training.Torchrun", Recorded)
    result = CliRunner().invoke(app, [*TRAIN, "--workers", "2", "-o", "started.csv"])
    assert asked == [2]
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (1, "error: that is all")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--engine", "ray"], "--engine needs --workers"),
        (["--workers", "2", "--engine", "rya"], "--engine: there is no 'rya'; did you mean 'ray'?"),
        (["--workers", "0"], "workers must be a whole number >= 1"),
        (["--workers", "2", "--method", "raykar"], "raykar is not trained batch by batch"),
        (["--workers", "2", "--method", "auto-classifier"], "auto-classifier is not trained batch by batch"),
    ],
)
def test_what_cannot_be_shared_is_said_before_files_are_read(files: Path, more: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["train", "none.csv", "--features", "none.npz", *more])
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_command_that_torchrun_started_takes_neither_workers_nor_stdin(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": "2", "RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    result = CliRunner().invoke(app, [*TRAIN, "--workers", "2"])
    assert (result.exit_code, "leave --workers out" in result.stderr) == (2, True)
    result = CliRunner().invoke(app, ["train", "-", "--features", "X.npz"])
    assert (result.exit_code, "stdin" in result.stderr) == (2, True)
