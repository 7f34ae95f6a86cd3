"""``crowdwise train`` and ``crowdwise predict``: features and votes in, labels and a classifier out."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.cli.conftest import Run

import crowdwise
from crowdwise.cli.job import progress_of
from crowdwise.estimator.registry import classifiers, label_methods, make_classifier

pytest.importorskip("torch")

N = 40
# Ids whose alphabetical order is not that of the rows: photo-10 comes before photo-2.
IDS = [f"photo-{n}" for n in range(N)]
FAST = ["--method", "ccem", "--set", "epochs=3", "--set", "warmup=1"]
THOROUGH = ["--method", "ccem", "--set", "network=linear", "--set", "learning_rate=0.1", "--set", "epochs=60"]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3)) * [0.1, 1, 1]
TRUTH = RNG.integers(0, 2, N)
X[:, 0] += 2 * TRUTH - 1
CLASSES = np.array(["cat", "dog"])


@pytest.fixture
def files(folder: Path) -> Path:
    """votes.csv of three annotators on all photos but the last five, and features of all in many formats."""
    rows = [
        f"{IDS[n]},{who},{CLASSES[TRUTH[n] ^ slip]}" for n in range(N - 5) for who, slip in (("x", 0), ("y", 0), ("z", n % 2))
    ]
    (folder / "votes.csv").write_text("item,annotator,label\n" + "\n".join(rows) + "\n")
    (folder / "truth.csv").unlink()
    frame = pl.DataFrame({"item": IDS, "a": X[:, 0], "b": X[:, 1], "c": X[:, 2]})
    frame.write_csv(folder / "X.csv")
    frame.write_parquet(folder / "X.parquet")
    frame.write_ipc(folder / "X.arrow")
    np.savez(folder / "X.npz", X=X, items=np.array(IDS))
    np.save(folder / "X.npy", X)
    return folder


def table(text: str) -> pl.DataFrame:
    return pl.read_csv(text.encode())


def train(run: Run, features: str = "X.npz", *more: str, **options: Any) -> Any:
    return run("train", "votes.csv", "--features", features, *FAST, *more, **options)


# -- train ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_of_a_process_it_is_said_what_it_chose_and_whether_it_converged(run: Run, files: Path) -> None:
    given = [
        "train",
        "votes.csv",
        "--features",
        "X.npz",
        "--method",
        "svgpcr",
        "--set",
        "inducing=8",
        "--set",
        "scaling=columns",
    ]
    given += ["--save", "model", "-o", "labels.csv"]
    short = run(*given, "--set", "likelihood=softmax", "--set", "epochs=3").stderr
    assert "svgpcr: NOT converged after 3 epochs; likelihood softmax, scaling columns" in short
    result = run(*given, "--json")
    document, model = json.loads(result.stdout), crowdwise.load("model")
    assert (document["likelihood"], document["scaling"]) == (model.likelihood_, "columns")
    assert document["bound"] == pytest.approx(sum(model.bound_.values()))
    state = "converged" if document["converged"] else "NOT converged"
    assert f"svgpcr: {state} after 333 epochs; likelihood {model.likelihood_}, scaling columns" in result.stderr


def test_the_command_is_as_sure_as_the_library(run: Run, files: Path) -> None:
    given = ["train", "votes.csv", "--features", "X.npz", "--method", "raykar", "-o", "labels.csv", "--save", "model"]
    said = run(*given).stderr
    result = crowdwise.load("model").result_
    written = dict(pl.read_csv("labels.csv").select("item", "confidence").iter_rows())
    np.testing.assert_allclose([written[item] for item in result.votes.items], result.confidence, atol=1e-6)
    asked = result.votes.votes_per_item > 0
    assert f"expected accuracy of the labels: {result.confidence[asked].mean():.0%}" in said
    assert "crowdwise audit" in said
    # Three votes on an item: log-odds by 3^.66 smaller than the model's.
    odds, of_model = (np.log(q[asked, 1] / q[asked, 0]) for q in (result.posterior, result.model_posterior))
    np.testing.assert_allclose(odds, of_model / 3**0.66, rtol=1e-6)
    assert "if annotators err independently" in run(*given[:-2], "--set", "confidence=model").stderr


def test_labels_of_all_rows_go_to_stdout_and_the_account_to_stderr(run: Run, files: Path) -> None:
    result = train(run)
    frame = table(result.stdout)
    assert frame.columns == ["item", "label", "confidence", "confidence_source", "n_votes", "note", "p(cat)", "p(dog)"]
    assert frame["item"].to_list() == IDS
    assert frame["label"].to_list()[: N - 5] == CLASSES[TRUTH[: N - 5]].tolist()
    assert frame["note"].to_list() == [""] * (N - 5) + ["no votes"] * 5
    assert "40 rows of 3 features" in result.stderr
    assert "105 votes on 40 items by 3 annotators, 2 classes" in result.stderr
    assert "5 items without votes: labelled by their features alone" in result.stderr
    assert "ccem: 3 epochs, best " in result.stderr
    assert "held-out score -" in result.stderr


@pytest.mark.parametrize("name", ["X.csv", "X.parquet", "X.arrow"])
def test_the_format_of_the_features_does_not_matter(run: Run, files: Path, name: str) -> None:
    assert train(run, name).stdout == train(run, "X.npz").stdout


def test_rows_in_another_order_meet_their_own_votes(run: Run, files: Path) -> None:
    order = np.random.default_rng(1).permutation(N)
    np.savez(files / "mixed.npz", X=X[order], items=np.array(IDS)[order])
    frame = table(train(run, "mixed.npz", *THOROUGH).stdout)
    assert frame["item"].to_list() == [IDS[n] for n in order]
    # From features alone for the last five: they would be wrong if rows had met the votes of others.
    assert frame["label"].to_list() == CLASSES[TRUTH[order]].tolist()


def test_every_output_at_once(run: Run, files: Path) -> None:
    result = train(run, "X.npz", "-o", "labels.csv", "--annotators", "people.csv", "--save", "model")
    assert result.stdout == ""
    assert [line for line in result.stderr.splitlines() if line.startswith("wrote")] == [
        "wrote model",
        "wrote people.csv: 3 annotators",
        "wrote labels.csv: 40 items",
    ]
    assert pl.read_csv(files / "people.csv")["annotator"][-1] == "z"
    assert pl.read_csv(files / "labels.csv").equals(table(train(run).stdout))


def test_json_is_one_object(run: Run, files: Path) -> None:
    document = json.loads(train(run, "X.npz", "--json").stdout)
    assert (document["method"], document["n_rows"], document["row_shape"]) == ("ccem", 40, [3])
    assert (document["n_epochs"], document["settings"]["epochs"]) == (3, 3)
    assert document["held_out_score"] < 0
    assert len(document["labels"]) == 40
    assert sum(document["labels"][0]["probabilities"].values()) == pytest.approx(1)
    document = json.loads(train(run, "X.npz", "--json", "-o", "labels.csv").stdout)
    assert "labels" not in document
    assert (files / "labels.csv").exists()


def test_quiet_says_nothing(run: Run, files: Path) -> None:
    result = train(run, "X.npz", "-q", "-o", "labels.csv")
    assert (result.stdout, result.stderr) == ("", "")


def test_the_seed_decides(run: Run, files: Path) -> None:
    assert train(run).stdout == train(run, "X.npz", "--seed", "0").stdout
    assert train(run).stdout != train(run, "X.npz", "--seed", "1").stdout


def test_another_method_with_its_settings(run: Run, files: Path) -> None:
    document = json.loads(train(run, "X.npz", "--json", "-m", "trace-reg", "--set", "strength=0.5").stdout)
    assert (document["method"], document["settings"]["strength"]) == ("trace-reg", 0.5)


@pytest.mark.parametrize("classifier", ["logistic", "network"])
def test_two_stages(run: Run, files: Path, classifier: str) -> None:
    settings = ["--method", "two-stage", "--set", "aggregator=one-coin", "--set", f"classifier={classifier}"]
    run("train", "votes.csv", "--features", "X.npz", *settings, "--save", "model", "-o", "labels.csv")
    labels, predicted = pl.read_csv(files / "labels.csv"), table(run("predict", "model", "--features", "X.npz").stdout)
    assert labels["label"].to_list()[: N - 5] == CLASSES[TRUTH[: N - 5]].tolist()
    assert (predicted["label"] == pl.Series(CLASSES[TRUTH])).mean() > 0.9


def test_em_around_a_named_classifier(run: Run, files: Path) -> None:
    command = ["train", "votes.csv", "--features", "X.npz", "-m", "crowd-em", "--set", "folds=2"]
    run(*command, "--save", "model", "-o", "labels.csv")
    predicted = table(run("predict", "model", "--features", "X.npz").stdout)
    assert (predicted["label"] == pl.Series(CLASSES[TRUTH])).mean() > 0.9
    command += ["--set", "estimator=boosting", "--set", "max_iter=2"]
    assert json.loads(run(*command, "--json").stdout)["settings"]["estimator"] == "boosting"
    refused = run(*command, "--save", "boosted", code=2)
    assert "boosting cannot be saved without pickle" in " ".join(refused.stderr.split())
    # The way that the message names: the last five rows have no votes.
    run(*command, "--set", "estimator=forest", "-o", "labels.csv")
    labelled = pl.read_csv(files / "labels.csv")
    assert labelled["n_votes"].to_list()[-5:] == [0] * 5
    assert (labelled["label"] == pl.Series(CLASSES[TRUTH])).to_list()[-5:].count(True) >= 4


def test_gold_stays_fixed_with_votes_and_without(run: Run, files: Path) -> None:
    (files / "gold.csv").write_text(f"item,label\n{IDS[0]},{CLASSES[1 - TRUTH[0]]}\n{IDS[-1]},cat\n")
    result = train(run, "X.npz", "--gold", "gold.csv")
    frame = table(result.stdout)
    assert frame.row(0)[1:6] == (CLASSES[1 - TRUTH[0]], 1.0, "gold", 3, "known")
    assert frame.row(N - 1)[1:6] == ("cat", 1.0, "gold", 0, "known")
    assert "2 known labels kept fixed" in result.stderr


def test_rows_without_ids_are_taken_in_order_and_it_is_said(run: Run, files: Path) -> None:
    numbers = "\n".join(f"{n},{who},{CLASSES[TRUTH[n]]}" for n in range(N) for who in "xy")
    (files / "numbered.csv").write_text(f"item,annotator,label\n{numbers}\n")
    result = run("train", "numbered.csv", "--features", "X.npy", *FAST)
    assert "X.npy has no ids: its rows are taken for the items of the votes in sorted order (0, 1, 2, ...)" in result.stderr
    assert table(result.stdout)["label"].to_list() == CLASSES[TRUTH].tolist()
    assert run("train", "numbered.csv", "--features", "X.npy", *FAST, "-q").stderr == ""
    # Text is sorted otherwise than most files are: even the quiet are warned.
    (files / "named.csv").write_text((files / "numbered.csv").read_text().replace("\n", "\nn-").removesuffix("n-"))
    warned = run("train", "named.csv", "--features", "X.npy", *FAST, "-q").stderr
    assert warned.startswith("warning: X.npy has no ids: its rows are taken for")
    assert "(n-0, n-1, n-10, ...); add ids if they are in another" in warned


def test_the_votes_own_name_of_the_items_serves_for_the_features_too(run: Run, files: Path) -> None:
    (files / "votes.csv").write_text((files / "votes.csv").read_text().replace("item,", "photo,", 1))
    (files / "Y.csv").write_text((files / "X.csv").read_text().replace("item,", "photo,", 1))
    expected = table(train(run, "Y.csv", "--item", "photo").stdout)
    # Where the features call them otherwise, they are found by the usual names, or named.
    assert table(train(run, "X.csv", "--item", "photo").stdout).equals(expected)
    (files / "Z.csv").write_text((files / "X.csv").read_text().replace("item,", "picture,", 1))
    assert "column 'picture' is not a number" in train(run, "Z.csv", "--item", "photo", code=1).stderr
    assert table(train(run, "Z.csv", "--item", "photo", "--features-item", "picture").stdout).equals(expected)


def test_one_of_several_arrays(run: Run, files: Path) -> None:
    np.savez(files / "two.npz", train=X, test=X, items=np.array(IDS))
    assert "'train', 'test'; name it: key=... in Python, --key NAME" in train(run, "two.npz", code=1).stderr
    assert train(run, "two.npz", "--key", "train").stdout == train(run).stdout


@pytest.mark.slow
def test_images_sparse_matrices_and_pixels_on_disk(run: Run, files: Path) -> None:
    import scipy.sparse

    (files / "numbered.csv").write_text("item,annotator,label\n" + "\n".join(f"{n},x,{TRUTH[n]}" for n in range(N)))
    pixels = (np.random.default_rng(0).random((N, 8, 8, 3)) * 255).astype(np.uint8)
    scipy.sparse.save_npz(files / "sparse.npz", scipy.sparse.csr_matrix(np.abs(X) > 1, dtype=float))
    np.savez(files / "images.npz", images=pixels)
    np.save(files / "images.npy", pixels)
    np.save(files / "flat.npy", pixels.reshape(N, -1))
    np.savez(files / "flat.npz", X=pixels.reshape(N, -1))
    for name in ("sparse.npz", "images.npz", "images.npy", "flat.npy", "flat.npz"):
        run("train", "numbered.csv", "--features", name, *FAST, "--save", f"model-{name}", "-q", "-o", f"{name}.csv")
        run("predict", f"model-{name}", "--features", name, "-q", "-o", f"{name}-p.csv")
    for kind in ("flat", "images"):
        # Rows that lie on disk are shuffled in runs, so the networks differ; the numbers that they are given must not.
        run("predict", f"model-{kind}.npz", "--features", f"{kind}.npy", "-q", "-o", "disk.csv")
        assert (files / "disk.csv").read_text() == (files / f"{kind}.npz-p.csv").read_text()
        run("predict", f"model-{kind}.npy", "--features", f"{kind}.npz", "-q", "-o", "memory.csv")
        assert (files / "memory.csv").read_text() == (files / f"{kind}.npy-p.csv").read_text()


@pytest.mark.parametrize("name", ["X.npz", "X.csv", "whole.npy"])
def test_a_method_without_a_network_takes_the_same_files(run: Run, files: Path, name: str) -> None:
    (files / "numbered.csv").write_text("item,annotator,label\n" + "\n".join(f"{n},x,{TRUTH[n]}" for n in range(N)))
    np.save(files / "whole.npy", (X * 10).astype(np.int64))
    votes = "numbered.csv" if name == "whole.npy" else "votes.csv"
    result = run("train", votes, "--features", name, "--method", "raykar", "--save", "model", "-o", "labels.csv")
    assert "raykar: converged after " in result.stderr
    run("predict", "model", "--features", name, "-o", "predicted.csv")
    predicted = pl.read_csv(files / "predicted.csv")
    assert predicted["label"].to_list() == (TRUTH if name == "whole.npy" else CLASSES[TRUTH]).tolist()


# -- predict --------------------------------------------------------------------------------------


def test_predict_gives_every_row_its_class(run: Run, files: Path) -> None:
    train(run, "X.npz", "--save", "model", "-q", "-o", "labels.csv", *THOROUGH)
    frame = table(run("predict", "model", "--features", "X.npz").stdout)
    assert frame.columns == ["item", "label", "confidence", "p(cat)", "p(dog)"]
    assert frame["item"].to_list() == IDS
    assert frame["label"].to_list() == CLASSES[TRUTH].tolist()
    assert (frame["p(cat)"] + frame["p(dog)"]).to_list() == pytest.approx([1.0] * N)
    assert frame["confidence"].to_list() == frame.select(pl.max_horizontal("p(cat)", "p(dog)")).to_series().to_list()
    # Without votes on it, what an item gets in training is what the classifier says.
    labels = pl.read_csv(files / "labels.csv")
    assert frame["p(dog)"][-5:].to_list() == pytest.approx(labels["p(dog)"][-5:].to_list())


def test_predict_numbers_rows_without_ids_and_takes_a_single_one(run: Run, files: Path) -> None:
    train(run, "X.npz", "--save", "model", "-q", "-o", "labels.csv")
    np.save(files / "one.npy", X[:1])
    whole = table(run("predict", "model", "--features", "X.npy").stdout)
    assert whole["item"].to_list() == list(range(N))
    one = table(run("predict", "model", "--features", "one.npy").stdout)
    assert one.height == 1
    assert one["p(cat)"][0] == pytest.approx(whole["p(cat)"][0], rel=1e-12)


def test_predict_writes_a_file_and_json(run: Run, files: Path) -> None:
    train(run, "X.npz", "--save", "model", "-q", "-o", "labels.csv")
    result = run("predict", "model", "--features", "X.npz", "-o", "predicted.parquet")
    assert (result.stdout, result.stderr) == ("", "wrote predicted.parquet: 40 items\n")
    document = json.loads(run("predict", "model", "--features", "X.npz", "--json").stdout)
    assert document.pop("labels") == pl.read_parquet(files / "predicted.parquet").to_dicts()
    assert document == {"method": "ccem", "classes": ["cat", "dog"], "n_items": 40}
    assert "labels" not in json.loads(run("predict", "model", "--features", "X.npz", "--json", "-o", "p.csv").stdout)


def test_predictions_are_measured_where_the_truth_is_known(run: Run, files: Path) -> None:
    train(run, "X.npz", "--save", "model", "-q", "-o", "labels.csv")
    frame = table(run("predict", "model", "--features", "X.npz").stdout)
    # Three items are said to be what was predicted and one to be the other class; one is not among the rows.
    other = {"cat": "dog", "dog": "cat"}
    said = [*frame["label"][:3], other[frame["label"][3]]]
    rows = [f"{item},{label}" for item, label in zip(IDS, said, strict=False)]
    (files / "truth.csv").write_text("\n".join(["item,label", *rows, "absent,fox"]))
    result = run("predict", "model", "--features", "X.npz", "--truth", "truth.csv", "--json")
    document = json.loads(result.stdout)
    assert (document["n_known"], document["accuracy"]) == (4, 0.75)
    loss = -np.mean([*np.log(frame["confidence"][:3]), np.log(1 - frame["confidence"][3])])
    assert document["log_loss"] == pytest.approx(loss)
    assert result.stderr.startswith("accuracy 0.75, AUC ")
    assert ", log-loss " in result.stderr
    assert result.stderr.endswith(" on 4 known labels\n")
    (files / "truth.csv").write_text("item,label\nabsent,cat\n")
    error = run("predict", "model", "--features", "X.npz", "--truth", "truth.csv", code=1).stderr
    assert "truth.csv: names no item of X.npz" in error
    (files / "truth.csv").write_text(f"item,label\n{IDS[0]},fox\n")
    assert "label 'fox' of item 'photo-0' is not among the classes" in run(
        "predict", "model", "--features", "X.npz", "--truth", "truth.csv", code=1
    ).stderr  # fmt: skip


def test_votes_on_new_items_are_heard(run: Run, files: Path) -> None:
    train(run, "X.npz", "--save", "model", "-q", "-o", "labels.csv", "--set", "epochs=1")
    ids = np.array(["new-1", "new-2", "new-3"])
    np.savez(files / "new.npz", X=X[:3], items=ids)
    (files / "new.csv").write_text("item,annotator,label\nnew-2,x,cat\nnew-2,y,cat\nnew-2,unseen,cat\n")
    alone = table(run("predict", "model", "--features", "new.npz").stdout)
    result = run("predict", "model", "--features", "new.npz", "--votes", "new.csv")
    heard = table(result.stdout)
    assert "votes on 1 of 3 rows; the others have the classifier's own answer" in result.stderr
    assert heard["n_votes"].to_list() == [0, 3, 0]
    assert heard["p(cat)"][0] == pytest.approx(alone["p(cat)"][0])
    assert heard["p(cat)"][1] > max(0.9, alone["p(cat)"][1])


def test_columns_are_matched_by_name(run: Run, files: Path) -> None:
    train(run, "X.csv", "--save", "model", "-q", "-o", "labels.csv")
    expected = run("predict", "model", "--features", "X.csv").stdout
    turned = pl.read_csv(files / "X.csv").select("c", "item", pl.lit(1.0).alias("more"), "b", "a")
    turned.write_csv(files / "turned.csv")
    result = run("predict", "model", "--features", "turned.csv")
    assert result.stdout == expected
    assert result.stderr == "ignored columns that the model was not trained on: more\n"
    turned.drop("b").write_csv(files / "lacking.csv")
    error = run("predict", "model", "--features", "lacking.csv", code=1).stderr
    assert "lacking.csv: no column 'b', which the model was trained on; it has 'c', 'more', 'a'" in error
    # Arrays have no names; their columns are taken in order.
    by_order = table(run("predict", "model", "--features", "X.npz").stdout)
    assert by_order.equals(table(expected))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["model", "--features", "wide.npy"], 1, "wide.npy: rows of 4 features, and the model was trained on 3"),
        (["model", "--features", "images.npy"], 1, "images.npy: rows of 3 x 3 features, and the model was trained on 3"),
        (["model", "--features", "nan.npy"], 1, "nan.npy row 7, column 2 (counted from 0): NaN or infinity"),
        (["model", "--features", "absent.npy"], 1, "absent.npy: no such file"),
        (["nowhere", "--features", "X.npy"], 1, "nowhere: no saved result here"),
        (["labels", "--features", "X.npy"], 1, "labels holds consensus, which knows votes alone; crowdwise train --save"),
        (["model", "--features", "X.npz", "--votes", "odd.csv"], 1, "labels ['fox'] occur in the votes"),
        (
            ["model", "--features", "X.npz", "--votes", "others.csv"],
            1,
            "no row for 1 of the 1 items with votes, such as 'q'",
        ),
        (
            ["model", "--features", "X.npy", "--votes", "others.csv"],
            1,
            "X.npy has 40 rows and no ids, and the votes",
        ),
        (["model", "--features", "X.npz", "--label", "l"], 2, "do not apply without --votes"),
        (["model", "--features", "X.npz", "-o", "X.npz"], 2, "cannot write .npz"),
        (["model", "--features", "X.csv", "-o", "X.csv"], 2, "X.csv is also the input"),
        (["model", "--features", "X.npz", "--json", "-o", "-"], 2, "both ask for stdout"),
    ],
)
def test_predict_fails_in_one_line(run: Run, files: Path, arguments: list[str], code: int, message: str) -> None:
    train(run, "X.npz", "--save", "model", "-q", "-o", "labels.csv")
    run("aggregate", "votes.csv", "--save", "labels", "-q", "-o", "labels.csv")
    np.save(files / "wide.npy", np.zeros((2, 4)))
    np.save(files / "images.npy", np.zeros((2, 3, 3)))
    np.save(files / "nan.npy", np.where(np.arange(30).reshape(10, 3) == 23, np.nan, 1.0))
    (files / "odd.csv").write_text(f"item,annotator,label\n{IDS[0]},x,fox\n")
    (files / "others.csv").write_text("item,annotator,label\nq,x,cat\n")
    result = run("predict", *arguments, code=code)
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert message in result.stderr


# -- what goes wrong before training --------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--save", "votes.csv"], 2, "--save: votes.csv is a file; name a folder"),
        (["--save", "votes.csv/model"], 2, "--save: cannot save into votes.csv/model"),
        (["-o", "nowhere/labels.csv"], 2, "the folder 'nowhere' does not exist"),
        (["-o", "X.npz"], 2, "cannot write .npz"),
        (["--annotators", "-"], 2, "only -o can go to stdout"),
        (["--json", "-o", "-"], 2, "both ask for stdout"),
        (["--method", "cecm"], 2, "no classifier 'cecm'; did you mean 'ccem'?"),
        (
            ["--method", "dawid-skene"],
            2,
            "dawid-skene takes votes alone: use it with `aggregate`, or as",
        ),
        (["--method", "ccem", "--set", "epoch=3"], 2, "ccem has no setting 'epoch'; did you mean 'epochs'?"),
        (["--method", "ccem", "--set", "epochs=0"], 2, "epochs must be at least 1"),
        (["--set", "epochs=3"], 2, "no method is named, so it is auto-classifier: name another with --method"),
        (["--method", "ccem", "--set", "network=mpl"], 2, "network must be one of auto, linear, mlp, cnn"),
        (["--features-item", "ids"], 1, "X.npz: no array 'ids'"),
        (["--key", "Y"], 1, "X.npz: no array 'Y'; found 'X'"),
        (["--item", "itme"], 1, "votes.csv: no column 'itme'"),
        (["--gold", "nowhere.csv"], 1, "nowhere.csv: no such file"),
    ],
)
def test_train_fails_in_one_line(
    run: Run, files: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, message: str
) -> None:
    monkeypatch.setattr("crowdwise.methods.classify.base.CrowdClassifier.fit", lambda *_, **__: pytest.fail("it was trained"))
    before = sorted(path.name for path in files.iterdir())
    result = run("train", "votes.csv", "--features", "X.npz", *arguments, code=code)
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert sorted(path.name for path in files.iterdir()) == before


@pytest.mark.parametrize(
    ("save", "message"),
    [
        (lambda folder: np.savez(folder / "f.npz", X=X[:30], items=np.array(IDS[:30])),
         "f.npz: no row for 5 of the 35 items with votes, such as 'photo-30' (ids there are such as 'photo-0'); add"),
        (lambda folder: np.savez(folder / "f.npz", X=X, items=np.arange(N)),
         "f.npz: no row for 35 of the 35 items with votes, such as 'photo-0' (ids there are such as 0)"),
        (lambda folder: np.savez(folder / "f.npz", X=X),
         "f.npz has 40 rows and no ids, and the votes are on 35 items; add the ids: an array 'items'"),
        (lambda folder: np.savez(folder / "f.npz", X=np.where(X[2, 1] == X, np.inf, X), items=np.array(IDS)),
         "f.npz array 'X' row 2, column 1 (counted from 0): NaN or infinity; fill it in or drop the item"),
    ],
    ids=["rows missing", "other ids", "no ids", "infinity"],
)  # fmt: skip
def test_features_that_do_not_suit_the_votes(run: Run, files: Path, save: Any, message: str) -> None:
    save(files)
    assert message in train(run, "f.npz", "--save", "model", code=1).stderr
    assert not (files / "model").exists()


def test_one_class_is_not_enough(run: Run, files: Path) -> None:
    (files / "votes.csv").write_text("item,annotator,label\n" + "\n".join(f"{item},x,cat" for item in IDS))
    assert "at least two classes, and the votes have the class 'cat' only" in train(run, code=1).stderr


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="no folder that refuses even the administrator")
def test_a_folder_that_may_not_be_written_is_found_before_training(run: Run, files: Path) -> None:
    assert "--save: cannot save into /proc/model (" in train(run, "X.npz", "--save", "/proc/model", code=2).stderr


@pytest.mark.slow
def test_without_torch_the_extra_is_named(files: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "sys.argv = ['crowdwise', 'train', 'votes.csv', '--features', 'X.npz', '--method', 'ccem']\n"
        "from crowdwise.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=files)
    assert done.returncode == 1
    assert done.stderr == "error: ccem needs torch: pip install 'crowdwise[torch]'\n"


# -- the other commands ---------------------------------------------------------------------------


def test_saved_classifiers_are_saved_results(run: Run, files: Path) -> None:
    train(run, "X.npz", "--save", "model", "-q", "-o", "labels.csv")
    assert [row["annotator"] for row in json.loads(run("annotators", "model", "--json").stdout)][-1] == "z"
    why = json.loads(run("explain", IDS[3], "model", "--json").stdout)
    assert why["label"] == CLASSES[TRUTH[3]]
    # The classifier, three votes, and what experience takes back.
    assert [row["source"] for row in why["rows"]] == ["classifier", "x", "y", "z", "caution"]
    assert sum(row["contribution"] for row in why["rows"]) == pytest.approx(why["total"])
    assert "model is a saved result" in run("annotators", "model", "--method", "glad", code=2).stderr
    run("aggregate", "votes.csv", "--history", "model", "-q", "-o", "labels.csv")


def test_aggregate_points_to_train(run: Run, files: Path) -> None:
    error = run("aggregate", "votes.csv", "--method", "ccem", code=2).stderr
    assert error == "error: ccem learns from features too: crowdwise train VOTES --features FILE --method ccem\n"
    train(run, "X.npz", "--save", "model", "-q", "-o", "labels.csv")
    error = run("aggregate", "votes.csv", "--warm-from", "model", code=2).stderr
    assert error == "error: model holds a classifier (ccem); train it on all votes with crowdwise train\n"


def test_methods_lists_classifiers_and_their_settings(run: Run) -> None:
    text = run("methods").stdout
    assert all(name in text for name in {**label_methods(), **classifiers()})
    assert "early stopping" in run("methods", "ccem").stdout
    assert "did you mean 'ccem'" in run("methods", "cecm", code=2).stderr


@pytest.mark.parametrize("command", ["train", "predict"])
def test_help_has_an_example(run: Run, command: str) -> None:
    assert f"Example: crowdwise {command}" in " ".join(run(command, "--help").stdout.split())


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["methods"], ["train", "--help"], ["predict", "--help"]])
def test_lists_and_help_need_no_torch_and_no_scikit_learn(arguments: list[str]) -> None:
    code = f"""
import sys
sys.argv = ["crowdwise", *{arguments!r}]
from crowdwise.cli.job import progress_of
from crowdwise.estimator.registry import classifiers, label_methods, make_classifier
from crowdwise.cli import main
try:
    main()
except SystemExit as stop:
    assert stop.code == 0, stop.code
heavy = {{"torch", "sklearn", "safetensors", "numba", "scipy"}} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals there")
def test_a_watched_run_shows_epochs(files: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "crowdwise", "train", "votes.csv", "--features", "X.npz", "-o", "labels.csv"]
    command += ["--method", "ccem", "--set", "epochs=60", "--set", "patience=60"]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(command, stderr=theirs, env=environment, cwd=files)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal is an error
        while part := os.read(ours, 65_536):
            shown += part
    os.close(ours)
    assert process.wait(timeout=60) == 0
    # Drawn ten times a second, so that which epochs are seen depends on the machine; the last one is always drawn.
    assert b"ccem: " in shown
    assert b"/60" in shown


def test_progress_tells_the_held_out_score_and_when_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[str, int, int]] = []

    @contextlib.contextmanager
    def steps(name: str) -> Any:
        yield lambda *step: shown.append(step)

    monkeypatch.setattr("crowdwise.cli.job.steps", steps)
    with progress_of(make_classifier("ccem", epochs=60)) as progress:
        assert progress is not None
        progress(7, 0.0, 0.25)
        progress(8, 0.0, float("nan"))
    assert shown == [("ccem: held-out -0.2500", 7, 60), ("ccem: training on all items", 8, 60)]
