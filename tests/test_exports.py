"""The public names of the package: one list, decided here, and what people and tools see of it."""

from __future__ import annotations

import ast
import importlib
import pydoc
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import crowdwise
from crowdwise.estimator.registry import METHODS

# A name that comes or goes is a decision: users have it in their code.
PUBLIC = [
    "AggNet",
    "AnnotMix",
    "Annotations",
    "Answers",
    "Auto",
    "AutoClassifier",
    "Average",
    "BSC",
    "BayesDGC",
    "BayesGC",
    "BeliefPropagation",
    "BradleyTerry",
    "CCEM",
    "CNMF",
    "COINNet",
    "CoNAL",
    "CommunityBCC",
    "Comparisons",
    "ConfusionVector",
    "Consensus",
    "ConsensusSets",
    "CovarianceCrowd",
    "CrowdBT",
    "CrowdClustering",
    "CrowdEM",
    "CrowdLayer",
    "CrowdLayerRegression",
    "CumulativeLink",
    "DALC",
    "DawidSkene",
    "DeepBP",
    "DeepMF",
    "EBCC",
    "Edges",
    "Eigen",
    "FourierGP",
    "GLAD",
    "GPCrowdRegression",
    "GPNETCR",
    "GaussianCrowd",
    "GraphDawidSkene",
    "GroupDawidSkene",
    "GroupVote",
    "HMMCrowd",
    "HierarchicalDawidSkene",
    "InstanceConfusion",
    "ItemGroupDS",
    "KOS",
    "LabelSets",
    "LabelWise",
    "MACE",
    "MBEM",
    "MMSR",
    "MajorityVote",
    "MaxMIG",
    "MaxMarginVote",
    "MeanField",
    "Method",
    "MinimaxEntropy",
    "MultiSPA",
    "OneCoin",
    "OnlineEM",
    "OrdinalBinary",
    "PGD",
    "ParityClassifier",
    "PartialDawidSkene",
    "RankNetwork",
    "Ratings",
    "Raykar",
    "Result",
    "Rodr14",
    "STAL",
    "SVGP",
    "SVGPCR",
    "SVGPCRNF",
    "Similarities",
    "SimilarityNMF",
    "SpectralDS",
    "StreamingDawidSkene",
    "StudentCrowd",
    "SymNMF",
    "TensorADMM",
    "TokenDawidSkene",
    "TokenMajority",
    "TokenVotes",
    "TwoStage",
    "UnionNet",
    "VGPCR",
    "Wawa",
    "WorkerCluster",
    "Yan",
    "ZeroBasedSkill",
    "__version__",
    "audit",
    "calibration",
    "callbacks",
    "campaign",
    "compare",
    "crowd",
    "data",
    "datasets",
    "engines",
    "errors",
    "estimator",
    "fairness",
    "io",
    "kernels",
    "load",
    "make",
    "methods",
    "metrics",
    "nearest_edges",
    "parts",
    "plot",
    "read",
    "register",
    "report",
    "scale",
    "serve",
    "simulate",
    "trust",
]
ROOMS = {
    "campaign", "data", "engines", "errors", "estimator", "io", "kernels", "methods", "parts", "report", "scale",
    "serve", "trust",
}  # fmt: skip
STUB = Path(crowdwise.__file__).with_suffix(".pyi")


def test_the_public_names_are_these() -> None:
    assert sorted(crowdwise.__all__) == PUBLIC
    assert sorted(PUBLIC) == PUBLIC


def test_dir_shows_every_public_name_and_room_and_no_other() -> None:
    assert set(dir(crowdwise)) >= (set(PUBLIC) | ROOMS) - {"__version__"}
    strange = {name for name in dir(crowdwise) if not name.startswith("_")} - set(PUBLIC)
    # Importing a module makes it a name of its package, `cli` among them.
    assert strange <= {"annotations", "cli", "lazy_loader"}, strange


def test_every_room_is_a_name_of_the_package() -> None:
    here = Path(crowdwise.__file__).parent
    folders = {path.name for path in here.iterdir() if (path / "__init__.py").exists()} | {"errors"}
    assert folders - {"cli"} == ROOMS


def test_every_registered_class_is_exported() -> None:
    assert {method.path.partition(":")[2] for method in METHODS.values()} <= set(PUBLIC)


def test_the_stub_and_the_package_agree() -> None:
    """Type checkers read the stub alone: what it promises must be there, from the very place it names."""
    listed = {"__version__"}
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                assert alias.asname == alias.name, f"{alias.name}: only `as` the same name is re-exported by a stub"
                listed.add(alias.name)
                if alias.name in PUBLIC and not importable_only_with_an_extra(alias.name):
                    source = importlib.import_module(f"crowdwise.{node.module}" if node.module else "crowdwise")
                    assert getattr(crowdwise, alias.name) is getattr(source, alias.name)
    assert listed == set(PUBLIC)


@pytest.mark.parametrize("stub", sorted(STUB.parent.glob("*/**/__init__.pyi")), ids=lambda path: path.parent.name)
def test_every_door_opens(stub: Path) -> None:
    """What the stub of a room promises is there, from the place it names."""
    name = ".".join(["crowdwise", *stub.parent.relative_to(STUB.parent).parts])
    door, listed = importlib.import_module(name), []
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            listed.append(alias.name)
            with suppress(ImportError):  # without an extra
                source = importlib.import_module(f"{name}.{node.module or alias.name}")
                assert getattr(door, alias.name) is (source if node.module is None else getattr(source, alias.name))
    assert sorted(door.__all__) == sorted(listed)


def importable_only_with_an_extra(name: str) -> bool:
    return any(method.extra and method.path.endswith(f":{name}") for method in METHODS.values())


@pytest.mark.slow
def test_what_needs_an_extra_is_there_with_it() -> None:
    for method in METHODS.values():
        assert getattr(crowdwise, method.cls.__name__) is method.cls


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="NotThere"):
        crowdwise.NotThere  # noqa: B018


def test_help_lists_parameters() -> None:
    shown = pydoc.plain(pydoc.render_doc(crowdwise.DawidSkene))
    assert "Parameters" in shown
    for setting in ("class_prior", "max_iter", "tol : float, default 1e-06", "init", "restarts", "random_state"):
        assert setting in shown


SNIPPET = """\
import crowdwise

crowdwise.NotThere
crowdwise.Raykar(classifer="logistic")
crowdwise.DawidSkene(tolerance=1.0)
crowdwise.DawidSkene(1.0)
crowdwise.BradleyTerry(tol="small")
reveal_type(crowdwise.DawidSkene().fit({}))
reveal_type(crowdwise.make)
reveal_type(crowdwise.load)
"""


@pytest.mark.slow
def test_a_type_checker_sees_typos(tmp_path: Path) -> None:
    """A misspelt name or setting is underlined in an editor, before anything runs."""
    (tmp_path / "snippet.py").write_text(SNIPPET)
    # What these packages say of themselves is of no interest here, and most of what there is to read.
    others = "[mypy-matplotlib.*,narwhals.*,numpy.*,polars.*,ray.*,rich.*,torch.*,typer.*]\nfollow_imports = skip\n"
    (tmp_path / "mypy.ini").write_text(f"[mypy]\nfollow_imports = silent\nignore_missing_imports = true\n\n{others}")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", "cache", "snippet.py"],
        cwd=tmp_path, env={"MYPYPATH": str(Path(crowdwise.__file__).parents[1]), "PATH": ""},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    found: dict[int, str] = {}
    for line in done.stdout.splitlines():
        where, _, message = line.partition(": ")
        if where.startswith("snippet.py:"):
            line_number = int(where.split(":")[1])
            found[line_number] = f"{found.get(line_number, '')}\n{message}"
    assert sorted(found) == [3, 4, 5, 6, 7, 8, 9, 10], done.stdout + done.stderr
    assert 'no attribute "NotThere"' in found[3]
    assert 'keyword argument "classifer"' in found[4]
    assert 'keyword argument "tolerance"' in found[5]
    assert "positional arguments" in found[6]
    assert "incompatible type" in found[7]
    assert "DawidSkene" in found[8]
    assert "name: str" in found[9]
    assert "folder: str" in found[10]


def test_a_name_that_is_not_there_points_to_the_nearest_and_to_the_release_notes() -> None:
    with pytest.raises(AttributeError, match=r"no 'DawidSkeen'; did you mean 'DawidSkene'\? .*release notes of 0\.2\.0"):
        _ = crowdwise.DawidSkeen  # type: ignore[attr-defined]
    assert not hasattr(crowdwise, "Values")
