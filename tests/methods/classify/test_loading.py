"""Saved classifiers: the same predictions to the bit, refused when damaged or hostile, whole whenever the writer stops."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest
import scipy.sparse
from scipy.special import log_softmax

import crowdwise
from crowdwise.data.annotations import Annotations
from crowdwise.data.storable import storable
from crowdwise.errors import InputError, MissingExtraError, SettingError
from crowdwise.estimator.estimator import setting
from crowdwise.estimator.outcome import Result
from crowdwise.estimator.registry import METHODS, Method, classifiers
from crowdwise.estimator.storage import FILE_NAME
from crowdwise.methods.classify.base import CrowdClassifier, Learned
from crowdwise.parts.annotators.model import Confusion, row_smoothing

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

CLASSIFIERS = classifiers()

N_ITEMS, N_FEATURES = 40, 3


def crowd(items: Any = None, classes: Any = ("no", "yes")) -> tuple[Any, Annotations]:
    """Two classes on two sides of a plane; three annotators, of whom the last is a coin."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ITEMS, N_FEATURES))
    truth = (X[:, 0] > 0).astype(int)
    ids = np.arange(N_ITEMS) if items is None else np.array(items, dtype=object)
    votes = np.stack([truth, truth, rng.integers(0, 2, N_ITEMS)], axis=1)
    label = np.array(classes, dtype=object)[votes.ravel()]
    return X, Annotations.from_arrays(np.repeat(ids, 3), np.tile(["x", "y", "z"], N_ITEMS), label, items=ids, classes=classes)


def ccem(**settings: Any) -> Any:
    return crowdwise.CCEM(epochs=2, warmup=1, **settings)


def make_net() -> Any:
    """With lazy layers, and with a tensor that has no axes (the counter of the batch normalisation)."""
    return nn.Sequential(nn.LazyLinear(4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


@storable
@dataclass(frozen=True, eq=False)
class Plane:
    """A classifier without torch: logits w x + b."""

    weight_dk: Any
    bias_k: Any

    def log_prob(self, features: Any) -> Any:
        return log_softmax(features @ self.weight_dk + self.bias_k, axis=1)


@dataclass(eq=False, repr=False, kw_only=True)
class Fake(CrowdClassifier):
    """A numpy method with a score per item that only the fit knows."""

    scale: float = setting(1.0, "Steepness.", above=0)
    base: Any = setting(None, "Something that cannot be saved.", free=True)

    name: ClassVar[str] = "fake"
    _saved: ClassVar[tuple[str, ...]] = (*CrowdClassifier._saved, "item_scores_")

    def _learn(self, features: Any, votes: Annotations, progress: Any) -> Learned:
        weight = np.zeros((features.shape[1], votes.n_classes))
        weight[0] = [-self.scale, self.scale]
        self.item_scores_ = features[:, 0] ** 2
        model = Confusion.start(row_smoothing(votes, 1.0), votes.n_annotators)
        return Learned(Plane(weight, np.zeros(votes.n_classes)), model, {}, 1, True)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Fake]:
    """The method above, registered."""

    monkeypatch.setitem(METHODS, "fake", Method("fake", f"{__name__}:Fake", "", "", "", features="table"))
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__, ModuleType(__name__)))
    for own in (Fake, Plane):
        monkeypatch.setattr(sys.modules[__name__], own.__name__, own, raising=False)
    return Fake


def assert_same(first: Any, second: Any, X: Any, votes: Annotations) -> None:
    """Predictions, with votes and without, and everything that a fit leaves."""
    assert first.predict_proba(X).tolist() == second.predict_proba(X).tolist()
    assert first.predict_proba(X, votes).tolist() == second.predict_proba(X, votes).tolist()
    assert first.predict(X).tolist() == second.predict(X).tolist()
    assert first.score(X, votes) == second.score(X, votes)
    assert first.classes_.tolist() == second.classes_.tolist()
    assert first.posterior_.tolist() == second.posterior_.tolist()
    assert first.confusion_.tolist() == second.confusion_.tolist()
    assert first.result_.items_frame().equals(second.result_.items_frame())
    for name in ("n_features_in_", "row_shape_", "history_"):
        assert getattr(first, name, None) == getattr(second, name, None)


# -- round trips ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["ccem", "crowd-layer-mw", "aggnet"])
def test_a_network_predicts_the_same_bits(method: str, tmp_path: Path) -> None:
    X, votes = crowd()
    model = crowdwise.make(method, epochs=2, warmup=1, class_weight={"no": 1.0, "yes": 2.0}).fit(X, votes)
    model.save(tmp_path)
    loaded = crowdwise.load(tmp_path)
    assert type(loaded) is type(model)
    assert loaded.get_params() == model.get_params()
    assert loaded.network_ is loaded.model_.network
    assert_same(model, loaded, X, votes)
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("method", ["raykar", "yan", "two-stage"])
def test_a_method_without_a_network_predicts_the_same_bits(method: str, sparse: bool, tmp_path: Path) -> None:
    X, votes = crowd()
    X = scipy.sparse.csr_matrix(X) if sparse else X
    model = crowdwise.make(method).fit(X, votes[:35], items=np.arange(N_ITEMS))
    model.save(tmp_path)
    loaded = crowdwise.load(tmp_path)
    assert loaded.get_params() == model.get_params()
    assert_same(model, loaded, X, votes)
    with zipfile.ZipFile(tmp_path / FILE_NAME) as archive:
        assert not [name for name in archive.namelist() if name.endswith(".safetensors")]


@pytest.mark.parametrize("own", [False, True])
def test_two_stages_with_a_network(own: bool, tmp_path: Path) -> None:
    from crowdwise.methods.classify.soft_network import SoftNetwork

    X, votes = crowd()
    given = {"network": make_net} if own else {}
    model = crowdwise.TwoStage(aggregator=crowdwise.OneCoin(), classifier=SoftNetwork(epochs=2, **given)).fit(X, votes)
    model.save(tmp_path)
    loaded = crowdwise.load(tmp_path, **given)
    assert loaded.aggregator == "dawid-skene"  # an estimator is not saved; a new fit has the default
    assert loaded.classifier.network is make_net if own else loaded.classifier == "network"
    assert_same(model, loaded, X, votes)


def test_two_stages_with_another_classifier_are_not_saved(tmp_path: Path) -> None:
    from sklearn.naive_bayes import GaussianNB

    X, votes = crowd()
    model = crowdwise.TwoStage(classifier=GaussianNB()).fit(X, votes)
    with pytest.raises(SettingError, match="a GaussianNB cannot be saved without pickle"):
        model.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_in_the_file_is_pickled(tmp_path: Path) -> None:
    X, votes = crowd()
    ccem().fit(X, votes).save(tmp_path)
    with zipfile.ZipFile(tmp_path / FILE_NAME) as archive:
        names = archive.namelist()
    assert {Path(name).suffix for name in names} == {".json", ".npy", ".safetensors"}


def test_one_row_is_enough_to_predict(tmp_path: Path) -> None:
    X, votes = crowd()
    model = ccem().fit(X, votes)
    model.save(tmp_path)
    loaded = crowdwise.load(tmp_path)
    assert loaded.predict_proba(X[:1]).tolist() == model.predict_proba(X[:1]).tolist()


def test_images_of_a_built_in_network(tmp_path: Path) -> None:
    _, votes = crowd()
    images = np.random.default_rng(1).integers(0, 256, (N_ITEMS, 8, 8, 3), dtype=np.uint8)
    model = ccem().fit(images, votes)
    model.save(tmp_path)
    loaded = crowdwise.load(tmp_path)
    assert loaded.row_shape_ == (8, 8, 3)
    assert_same(model, loaded, images, votes)


def test_unicode_ids_classes_and_column_names(tmp_path: Path) -> None:
    X, votes = crowd([f"日本 {n}\n👩‍🔬" for n in range(N_ITEMS)], ("нет", "да"))
    frame = pl.DataFrame(X, schema=["größe", "a, b", "é"], orient="row")
    model = ccem().fit(frame, votes)
    model.save(tmp_path)
    loaded = crowdwise.load(tmp_path)
    assert loaded.feature_names_in_.tolist() == ["größe", "a, b", "é"]
    assert loaded.feature_names_in_.dtype == model.feature_names_in_.dtype
    assert loaded.items_.tolist() == votes.items.tolist()
    assert_same(model, loaded, frame, votes)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename({"é": "e"}))


def test_gold_weights_and_rows_without_votes(tmp_path: Path) -> None:
    X, votes = crowd()
    weighted = replace(votes[:30], weight=np.linspace(0.5, 1.5, 90))
    model = ccem().fit(X, weighted, items=np.arange(N_ITEMS), gold={35: "yes", 2: "no"})
    model.save(tmp_path)
    assert_same(model, crowdwise.load(tmp_path), X, votes)


@pytest.mark.parametrize("given", [make_net, make_net()], ids=["function", "module"])
def test_a_network_of_ones_own_is_made_again(given: Any, tmp_path: Path) -> None:
    X, votes = crowd()
    model = ccem(network=given, optimizer=lambda groups: torch.optim.SGD(groups), precision="float32").fit(X, votes)
    model.save(tmp_path)
    mine = make_net()
    for network in (make_net, mine):
        loaded = crowdwise.load(tmp_path, network=network)
        assert_same(model, loaded, X, votes)
        assert loaded.network is network
        # A function cannot be saved; the default stands in its place for a new fit.
        assert loaded.optimizer == "adam"
    assert nn.parameter.is_lazy(mine[0].weight), "the user's module must stay as it was"


def test_a_loaded_model_can_be_fitted_again(tmp_path: Path) -> None:
    X, votes = crowd()
    model = ccem().fit(X, votes)
    model.save(tmp_path)
    before = model.predict_proba(X)
    assert crowdwise.load(tmp_path).fit(X, votes).predict_proba(X).tolist() == before.tolist()


def test_a_device_that_is_absent_here_is_no_obstacle(tmp_path: Path) -> None:
    X, votes = crowd()
    model = ccem(device="cpu").fit(X, votes)
    model.result_ = replace(model.result_, settings=model.result_.settings | {"device": "hpu"})
    model.save(tmp_path)
    assert crowdwise.load(tmp_path).predict_proba(X).tolist() == model.predict_proba(X).tolist()


def test_a_model_without_a_network_needs_no_torch(
    fake: Callable[..., Fake], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, votes = crowd()
    model = fake(scale=2.0, base=crowdwise.DawidSkene()).fit(X, votes)
    for name in ("torch", "safetensors", "safetensors.numpy", "safetensors.torch"):
        monkeypatch.setitem(sys.modules, name, None)
    model.check_save(tmp_path)
    model.save(tmp_path)
    loaded = crowdwise.load(tmp_path)
    assert loaded.scale == 2.0
    assert loaded.base is None
    assert loaded.item_scores_.tolist() == (X[:, 0] ** 2).tolist()
    assert_same(model, loaded, X, votes)


def test_a_model_of_another_width_is_refused(fake: Callable[..., Fake], tmp_path: Path) -> None:
    X, votes = crowd()
    model = fake().fit(X, votes)
    for wrong in (Plane(np.zeros((4, 2)), np.zeros(2)), Plane(np.zeros((3, 5)), np.zeros(5))):
        model.model_ = wrong
        model.save(tmp_path)
        with pytest.raises(InputError, match="not a fit"):
            crowdwise.load(tmp_path)


def test_a_model_that_only_pickle_could_hold_is_not_saved(fake: Callable[..., Fake], tmp_path: Path) -> None:
    class Forest(Plane):
        """Not @storable."""

    X, votes = crowd()
    model = fake().fit(X, votes)
    model.model_ = Forest(np.zeros((3, 2)), np.zeros(2))
    with pytest.raises(InputError, match=r"fake cannot be saved without pickle: its model is not @storable \(.*Forest"):
        model.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_label_only_results_open_as_before(tmp_path: Path) -> None:
    _, votes = crowd()
    model = crowdwise.DawidSkene(max_iter=50).fit(votes)
    model.save(tmp_path)
    loaded = crowdwise.load(tmp_path)
    assert type(loaded) is crowdwise.DawidSkene
    assert loaded.get_params() == model.get_params()
    assert loaded.predict_proba(votes).tolist() == model.predict_proba(votes).tolist()
    with pytest.raises(SettingError, match="dawid-skene, which has no network"):
        crowdwise.load(tmp_path, network=make_net)


# -- before and during a save ---------------------------------------------------------------------


def test_an_interrupted_save_leaves_the_old_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, votes = crowd()
    old = ccem().fit(X, votes)
    old.save(tmp_path)
    new = ccem(random_state=1).fit(X, votes)
    write = zipfile.ZipFile.writestr

    def interrupted(self: Any, name: Any, *more: Any, **options: Any) -> None:
        if name == "classifier.json":
            raise KeyboardInterrupt
        write(self, name, *more, **options)

    monkeypatch.setattr(zipfile.ZipFile, "writestr", interrupted)
    with pytest.raises(KeyboardInterrupt):
        new.save(tmp_path)
    monkeypatch.undo()
    assert crowdwise.load(tmp_path).predict_proba(X).tolist() == old.predict_proba(X).tolist()
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_what_cannot_be_written_is_known_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "occupied" / FILE_NAME).mkdir(parents=True)
    with pytest.raises(SettingError, match="file is a file; name a folder"):
        ccem().check_save(tmp_path / "file")
    with pytest.raises(SettingError, match=r"cannot save into .*file is a file"):
        ccem().check_save(tmp_path / "file" / "deep" / "model")
    with pytest.raises(SettingError, match=r"result\.zip is a folder"):
        ccem().check_save(tmp_path / "occupied")
    ccem().check_save(tmp_path / "new" / "model")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "occupied"]


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="no folder that refuses even the administrator")
def test_a_folder_that_may_not_be_written_is_known_before_training() -> None:
    with pytest.raises(SettingError, match=r"cannot save into /proc/model \("):
        ccem().check_save("/proc/model")


def test_a_missing_safetensors_is_known_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.delitem(sys.modules, "safetensors.numpy", raising=False)
    with pytest.raises(MissingExtraError, match=r"pip install 'crowdwise\[torch\]'"):
        ccem().check_save(tmp_path)


def test_an_unfitted_model_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(crowdwise.errors.NotFittedError, match="not fitted"):
        ccem().save(tmp_path)


# -- refusals -------------------------------------------------------------------------------------


def test_a_result_without_its_classifier_says_so(tmp_path: Path) -> None:
    X, votes = crowd()
    model = ccem(network=make_net).fit(X, votes)
    model.result_.save(tmp_path)  # a function among the settings is no obstacle
    assert "network" not in Result.load(tmp_path).settings
    with pytest.raises(InputError, match=r"without its classifier; .*model\.save"):
        crowdwise.load(tmp_path)


def test_a_network_that_is_missing_or_another(tmp_path: Path) -> None:
    X, votes = crowd()
    ccem(network=make_net).fit(X, votes).save(tmp_path)
    with pytest.raises(InputError, match=r"trained with your own network.*load\(folder, network=make_net\)"):
        crowdwise.load(tmp_path)
    with pytest.raises(InputError, match=r"it has '0\.weight' of shape \[5, 3\], and \[4, 3\] was saved"):
        crowdwise.load(tmp_path, network=nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2)))
    with pytest.raises(InputError, match=r"it has no '.*', which was saved"):
        crowdwise.load(tmp_path, network=lambda: nn.Linear(3, 2))
    with pytest.raises(InputError, match=r"it has '4\..*', which was not saved"):
        crowdwise.load(tmp_path, network=lambda: nn.Sequential(*make_net(), nn.Linear(2, 2)))
    for wrong in ("mlp", lambda: 3):
        with pytest.raises(SettingError, match="must be a torch module or a function that makes one"):
            crowdwise.load(tmp_path, network=wrong)


def test_a_built_in_network_wants_no_other(tmp_path: Path) -> None:
    X, votes = crowd()
    ccem().fit(X, votes).save(tmp_path)
    with pytest.raises(SettingError, match="built-in network; leave network= out"):
        crowdwise.load(tmp_path, network=make_net)


def test_a_method_without_a_network_wants_none(fake: Callable[..., Fake], tmp_path: Path) -> None:
    X, votes = crowd()
    fake().fit(X, votes).save(tmp_path)
    with pytest.raises(SettingError, match="fake has no network"):
        crowdwise.load(tmp_path, network=make_net)


@pytest.fixture(scope="module")
def content() -> dict[str, bytes]:
    """The members of a saved network."""
    import tempfile

    X, votes = crowd()
    model = ccem().fit(X, votes)
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        with zipfile.ZipFile(Path(folder) / FILE_NAME) as archive:
            return {name: archive.read(name) for name in archive.namelist()}


def written(folder: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(folder / FILE_NAME, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return folder


@pytest.mark.parametrize("member", ["classifier.json", "classifier.safetensors", "prior/log_nk.npy"])
@pytest.mark.parametrize("damage", [None, b"", b"{}", b"[]", b"\xff" * 40, b"\x93NUMPY\x01\x00"])
def test_missing_and_garbled_members_are_refused(
    content: dict[str, bytes], member: str, damage: bytes | None, tmp_path: Path
) -> None:
    members = {name: data for name, data in content.items() if name != member} | ({} if damage is None else {member: damage})
    with pytest.raises(InputError, match=FILE_NAME):
        crowdwise.load(written(tmp_path, members))


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.update(crowdwise=1),
        lambda document: document.update(model=document.pop("network")),
        lambda document: document.update(model={"class": "Confusion", "fields": document.pop("network")}),
        lambda document: document["network"].update(members=0),
        lambda document: document["network"].update(dtype="object"),
        lambda document: document["network"].update(spec=7),
        lambda document: document["network"]["spec"].update(kind="subprocess"),
        lambda document: document["network"]["spec"].update(n_classes=3),
        lambda document: document["network"]["spec"].update(shape=[4]),
        lambda document: document["network"]["spec"].update(width=10**15),
        lambda document: document["fitted"]["mapping"].append(["predict", 1]),
        lambda document: document["fitted"]["mapping"].append(["__class__", 1]),
        lambda document: document["fitted"]["mapping"].append(["posterior_", 1]),
        lambda document: document["fitted"]["mapping"].append(["history_", {"array": "absent"}]),
        lambda document: document.update(fitted=None),
    ],
)
def test_a_changed_description_is_refused(content: dict[str, bytes], change: Callable[[Any], Any], tmp_path: Path) -> None:
    document = json.loads(content["classifier.json"])
    change(document)
    with pytest.raises(InputError, match=FILE_NAME):
        crowdwise.load(written(tmp_path, content | {"classifier.json": json.dumps(document).encode()}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fields": {"method": "no-such"}}, "fitted by 'no-such', which this version"),
        ({"fields": {"settings": {"mapping": [["no_such", 1]]}}}, "settings that ccem does not have"),
        ({"extra": ["absent"]}, "not a result"),
        ({"extra": 3}, "not a result"),
    ],
)
def test_a_changed_result_is_refused(content: dict[str, bytes], change: dict[str, Any], message: str, tmp_path: Path) -> None:
    meta = json.loads(content["meta.json"])
    meta |= change | {"fields": meta["fields"] | change.get("fields", {})}
    with pytest.raises(InputError, match=message):
        crowdwise.load(written(tmp_path, content | {"meta.json": json.dumps(meta).encode()}))


def test_a_prior_of_other_items_is_refused(content: dict[str, bytes], tmp_path: Path) -> None:
    # Compiled loops read one row of it per item.
    from crowdwise.estimator.storage import npy_bytes

    members = content | {"prior/log_nk.npy": npy_bytes(np.zeros((3, 2)))}
    with pytest.raises(InputError, match="log_nk has shape"):
        Result.load(written(tmp_path, members))


def test_pickled_arrays_are_refused_unopened(content: dict[str, bytes], tmp_path: Path) -> None:
    from io import BytesIO

    class Bomb:
        def __reduce__(self) -> Any:
            return eval, ("__import__('os').environ.__setitem__('CROWDWISE_BOMB', 'exploded')",)

    buffer = BytesIO()
    np.save(buffer, np.array([Bomb()], dtype=object), allow_pickle=True)
    document = json.loads(content["classifier.json"])
    document["fitted"]["mapping"].append(["history_", {"array": "fitted/history_"}])
    meta = json.loads(content["meta.json"])
    meta["extra"].append("classifier/fitted/history_.npy")
    changed = {"classifier.json": document, "meta.json": meta}
    members = content | {name: json.dumps(data).encode() for name, data in changed.items()}
    with pytest.raises(InputError, match=r"pickle|Object arrays"):
        crowdwise.load(written(tmp_path, members | {"classifier/fitted/history_.npy": buffer.getvalue()}))
    assert "CROWDWISE_BOMB" not in os.environ


def test_a_truncated_file_is_refused(content: dict[str, bytes], tmp_path: Path) -> None:
    path = written(tmp_path, content) / FILE_NAME
    whole = path.read_bytes()
    for share in (0.0, 0.3, 0.6, 0.9, 0.999):
        path.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(InputError, match="not a result"):
            crowdwise.load(tmp_path)
