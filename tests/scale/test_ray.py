from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.scale.test_graph_shards import chains

from crowdwise import GraphDawidSkene
from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import simulate
from crowdwise.engines.focus import Focus
from crowdwise.engines.shards import Shard, ShardLost, Tally
from crowdwise.errors import CrowdwiseError, InputError, MissingExtraError, SettingError
from crowdwise.estimator.registry import make
from crowdwise.io import read
from crowdwise.scale.cluster import connect
from crowdwise.scale.local import Local
from crowdwise.scale.ray_actor import Owner
from crowdwise.scale.ray_engine import Ray, RayShards
from crowdwise.scale.sources import cut

ray = pytest.importorskip("ray")
# Ray leaves files and sockets of its own to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A cluster of two nodes with two cores each, to which this process is connected."""
    from ray import cloudpickle
    from ray.cluster_utils import Cluster

    # Steps of this file travel with their code: workers do not find it.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    wanted = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in wanted.items():
            patch.setenv(name, value)
        from ray._private.authentication_test_utils import reset_auth_token_state

        reset_auth_token_state()
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
        cluster.add_node(num_cpus=2)
        with connect(cluster.address):
            yield cluster
        cluster.shutdown()
    reset_auth_token_state()


@pytest.fixture(scope="module")
def votes() -> Annotations:
    """Hard enough for some twenty iterations."""
    return simulate(n_items=400, n_annotators=12, n_classes=3, votes_per_item=4, difficulty=0.3, random_state=3).votes


def fitted(name: str, votes: Annotations, engine: Any = None, **how: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(name).fit(votes, engine=engine, **how)


def shards_of(engine: Ray) -> RayShards:
    assert isinstance(engine._shards, RayShards)
    return engine._shards


def counting(shard: Shard, *_: Any) -> Tally:
    return Tally((np.array([shard.votes.n_votes], float),), evidence=float(shard.index), change=float(shard.index))


FEW = simulate(n_items=90, n_annotators=5, random_state=0).votes


@pytest.fixture(scope="class")
def seven(nodes: Any) -> Iterator[RayShards]:
    """Seven shards on three actors."""
    with Ray(nodes.address, actors=3) as engine:
        shards = engine.open(cut(FEW, 7), None)
        yield shards
        shards.close()


# -- the same answers --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def online(votes: Annotations, nodes: Any) -> Any:
    """An online method on five shards, by two actors: look, do not touch."""
    with Ray(nodes.address, shards=5, actors=2) as engine:
        return fitted("online-em", votes, engine)


@pytest.mark.slow
def test_a_fit_of_an_online_method_on_ray_is_that_on_local_shards(votes: Annotations, online: Any) -> None:
    """Such a method takes votes in another order when they lie in shards; the next test has one that does not."""
    other = fitted("online-em", votes, Local(shards=5, threads=1))
    np.testing.assert_allclose(online.result_.posterior, other.result_.posterior, rtol=0, atol=1e-8)
    np.testing.assert_array_equal(online.labels_, other.labels_)


@pytest.mark.slow
def test_known_labels_and_history_reach_the_actors(nodes: Any) -> None:
    made = simulate(n_items=200, n_annotators=8, n_classes=3, votes_per_item=3, random_state=1)
    some = {item: made.votes.classes[k] for item, k in zip(made.votes.items[:40].tolist(), made.truth[:40], strict=True)}
    with Ray(nodes.address, shards=3, actors=2) as engine:
        model = make("dawid-skene").fit(made.votes, some, engine=engine)
    np.testing.assert_allclose(
        model.result_.posterior, make("dawid-skene").fit(made.votes, some).result_.posterior, rtol=0, atol=1e-8
    )
    np.testing.assert_array_equal(model.result_.codes[:40], made.truth[:40])


@pytest.mark.slow
def test_files_are_encoded_by_tasks_and_labels_written_by_actors(votes: Annotations, nodes: Any, tmp_path: Path) -> None:
    path = written(votes, tmp_path / "votes.csv")
    with Ray(nodes.address, shards=6, work_dir=tmp_path / "work") as engine:
        result = fitted("dawid-skene", path, engine).result_
        assert not hasattr(result, "posterior")
        assert result.write_labels(tmp_path / "labels.parquet") == votes.n_items
        # A second fit encodes nothing, and would wait for ever if it did: the actors hold all cores.
        assert sorted(engine.map(str, [(1,), (2,)])) == ["1", "2"]
    got = pl.read_parquet(tmp_path / "labels.parquet").sort("item")
    expected = fitted("dawid-skene", read(path)).result_.items_frame().sort("item")
    assert got["label"].to_list() == expected["label"].to_list()
    np.testing.assert_allclose(got["confidence"].to_numpy(), expected["confidence"].to_numpy(), rtol=0, atol=1e-8)
    with pytest.raises(SettingError, match="closed with their engine"):
        result.write_labels(tmp_path / "again.parquet")


@pytest.mark.slow
class TestSteps:
    """Single steps, on shards that they share: an actor takes a second to start."""

    def test_tallies_add_up_over_more_groups_than_are_added_at_once(
        self, seven: RayShards, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("crowdwise.scale.ray_shards._FAN_IN", 2)
        tally = seven.total(counting)
        assert seven.place.startswith("3 Ray actors on 2 nodes (")
        assert tally.sums[0].tolist() == [FEW.n_votes]
        assert (tally.evidence, tally.change) == (0 + 1 + 2 + 3 + 4 + 5 + 6,) * 2
        # As from any other engine, sums may be worked on.
        tally.sums[0][:] = 0

    def test_errors_of_a_step_are_raised_at_once_as_what_they_are(self, seven: RayShards) -> None:
        def fail(shard: Shard, problem: Exception) -> Tally:
            raise problem

        before = seven.n_lost
        for problem in (InputError("votes.csv row 3: no label"), ZeroDivisionError("a bug")):
            with pytest.raises(type(problem), match=str(problem)) as caught:
                seven.total(fail, problem)
            assert type(caught.value) is type(problem)
        assert seven.total(counting).sums[0].tolist() == [FEW.n_votes]
        assert seven.n_lost == before

    def test_an_answer_that_was_given_is_given_again(self, seven: RayShards) -> None:
        def grow(shard: Shard) -> Tally:
            shard.posterior[:] += 1
            return Tally((), change=float(shard.posterior.max()))

        message = ray.put((grow, ()))
        # Of seven shards, each.
        assert [seven._add_up(call, message).change for call in (1001, 1001, 1002)] == [7, 7, 14]

    def test_a_state_goes_through_the_shards_in_their_order(self, seven: RayShards) -> None:
        def visit(shard: Shard, state: list[int], more: int) -> list[int]:
            state.append(shard.index + more)
            return state

        visited = [7, 100, 101, 102, 103, 104, 105, 106]
        assert seven.fold(visit, [7], 100) == visited
        ray.kill(seven._hosts[1].actor)
        with pytest.raises(ShardLost):
            seven.fold(visit, [7], 100)
        assert seven.fold(visit, [7], 100) == visited


def test_threads_of_an_actor_change_no_bit() -> None:
    votes = simulate(n_items=300, n_annotators=20, random_state=0).votes

    def uneven(shard: Shard) -> Tally:
        sums = np.bincount(shard.votes.annotator, np.sin(np.arange(shard.votes.n_votes)), minlength=20)
        return Tally((sums,), change=float(np.cos(sums).sum()))

    tallies = []
    for threads in (1, 2, 3, 8):
        owner = Owner(threads)
        owner.own(0, *cut(votes, 5))
        tallies.append(owner.run(1, 0, (uneven, ()))[1])
    for other in tallies[1:]:
        assert other.change == tallies[0].change
        np.testing.assert_array_equal(other.sums[0], tallies[0].sums[0])


# -- faults ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_actors_that_die_leave_no_trace_in_the_answers(votes: Annotations, online: Any, nodes: Any) -> None:
    """Of an online method, which begins again; the next test has one that only repeats a step."""
    rng, killed = np.random.default_rng(0), list[int]()

    def kill(iteration: int, bound: float, change: float) -> None:
        if iteration in (1, 5) and iteration not in killed:
            hosts = shards_of(engine)._hosts
            ray.kill(hosts[rng.integers(len(hosts))].actor)
            killed.append(iteration)

    with Ray(nodes.address, shards=5, actors=2) as engine:
        struck = fitted("online-em", votes, engine, progress=kill)
        assert shards_of(engine).n_lost == len(killed) > 0
        assert f"2 Ray actors of 2 threads on 2 nodes ({ray.util.get_node_ip_address()}), {len(killed)} lost" in engine.place
    np.testing.assert_array_equal(struck.result_.posterior, online.result_.posterior)
    assert struck.n_iter_ == online.n_iter_


@pytest.mark.slow
def test_actors_that_die_while_items_stand_aside_leave_no_trace_either(
    votes: Annotations, nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crowdwise.engines.loop.FOCUS_FROM", 0)
    scopes: list[list[str]] = []

    def remember(self: Focus, *given: Any, **options: Any) -> None:
        begin(self, *given, **options)
        scopes.append([])
        step = self._look_again
        self._look_again = lambda *parts: (scopes[-1].append("some"), step(*parts))[1]  # type: ignore[method-assign]

    begin = Focus.__init__
    monkeypatch.setattr(Focus, "__init__", remember)
    killed: list[int] = []

    def kill(iteration: int, bound: float, change: float) -> None:
        # As soon as items stand aside, once more while they do, and when they have caught up.
        if len(killed) < 3 and len(scopes[-1]) > 2 * len(killed):
            hosts = shards_of(engine)._hosts
            ray.kill(hosts[len(killed) % len(hosts)].actor)
            killed.append(iteration)

    with Ray(nodes.address, shards=8) as engine:
        calm = fitted("dawid-skene", votes, engine)
        struck = fitted("dawid-skene", votes, engine, progress=kill)
        assert shards_of(engine).n_lost == len(killed) == 3
    np.testing.assert_array_equal(struck.result_.posterior, calm.result_.posterior)
    assert struck.n_iter_ == calm.n_iter_
    whole = fitted("dawid-skene", votes)
    assert whole.n_iter_ == calm.n_iter_
    np.testing.assert_allclose(calm.result_.posterior, whole.result_.posterior, rtol=0, atol=1e-8)


@pytest.mark.slow
def test_items_that_depend_on_each_other_on_ray(nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Actors are lost before graphs are made, before the first messages, between sweeps, and before labels are written."""
    votes, edges = chains()
    path, settings = written(votes, tmp_path / "votes.csv"), {"edges": edges, "tol": 1e-4}
    memory = GraphDawidSkene(**settings).fit(votes)
    steps: list[Any] = []
    total = RayShards.total

    def struck(shards: RayShards, step: Any, *arguments: Any) -> Tally:
        if step.__module__.endswith("potts_shards"):
            steps.append(step)
            if len(steps) in (1, 4, 9):
                ray.kill(shards._hosts[len(steps) % 2].actor)
        return total(shards, step, *arguments)

    monkeypatch.setattr(RayShards, "total", struck)
    with Ray(nodes.address, shards=3, actors=2, work_dir=tmp_path / "work") as engine:
        model = GraphDawidSkene(**settings).fit(path, engine=engine)
        ray.kill(shards_of(engine)._hosts[0].actor)
        model.result_.write_labels(tmp_path / "labels.parquet")
        assert shards_of(engine).n_lost == 4
    found, expected = pl.read_parquet(tmp_path / "labels.parquet").sort("item"), memory.result_.items_frame()
    assert found["label"].to_list() == expected["label"].to_list()
    np.testing.assert_allclose(found["confidence"].to_numpy(), expected["confidence"].to_numpy(), rtol=0, atol=1e-10)
    assert model.coupling_ == pytest.approx(memory.coupling_, abs=1e-10)
    assert model.coupling_ > 0


@pytest.mark.slow
def test_without_a_node_those_that_are_left_take_over(
    votes: Annotations, nodes: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    extra = nodes.add_node(num_cpus=1)
    nodes.wait_for_nodes()

    def remove(iteration: int, bound: float, change: float) -> None:
        if iteration == 3:
            nodes.remove_node(extra, allow_graceful=False)

    with Ray(nodes.address, shards=10) as engine:
        assert engine.n_workers == 5
        struck = fitted("dawid-skene", votes, engine, progress=remove)
        assert engine.place.startswith("4 Ray actors on 2 nodes")
        assert engine.place.endswith("1 lost on the way")
    # Results may go there.
    assert capfd.readouterr().out == ""
    # The two tests before this one have the last bit.
    calm = fitted("dawid-skene", votes)
    assert struck.n_iter_ == calm.n_iter_
    np.testing.assert_allclose(struck.result_.posterior, calm.result_.posterior, rtol=0, atol=1e-8)


@pytest.mark.slow
def test_it_gives_up_when_actors_die_again_and_again(nodes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crowdwise.scale.ray_shards._ATTEMPTS", 2)

    def fatal(shard: Shard) -> Tally:
        os._exit(1)

    with Ray(nodes.address, actors=1) as engine:
        shards = engine.open(cut(FEW, 2), None)
        with pytest.raises(CrowdwiseError, match="lost actors 2 times in a row"):
            shards.total(fatal)
        # Whatever was wrong with that step, the shards are still there.
        assert shards.total(counting).sums[0].tolist() == [FEW.n_votes]
        shards.close()


KILLED = """
import os, signal, sys
from crowdwise import DawidSkene
from crowdwise.scale import Ray

def die(iteration, bound, change):
    if iteration == 7:
        os.kill(os.getpid(), signal.SIGKILL)

votes, work, address = sys.argv[1:]
DawidSkene().fit(votes, engine=Ray(address, shards=4, actors=2, work_dir=work, checkpoint_every=2), progress=die)
"""


@pytest.mark.slow
def test_a_fit_whose_driver_was_killed_resumes_from_its_checkpoint(votes: Annotations, nodes: Any, tmp_path: Path) -> None:
    path, work = written(votes, tmp_path / "votes.csv"), tmp_path / "work"
    words = [sys.executable, "-c", KILLED, path, str(work), nodes.address]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr
    seen: list[int] = []
    with Ray(nodes.address, shards=4, actors=2, work_dir=work, checkpoint_every=2) as engine:
        result = fitted("dawid-skene", path, engine, progress=lambda iteration, *_: seen.append(iteration)).result_
        result.write_labels(tmp_path / "labels.parquet")
    assert 1 < seen[0] <= 7
    whole = fitted("dawid-skene", read(path))
    assert seen[-1] == whole.n_iter_
    got = dict(pl.read_parquet(tmp_path / "labels.parquet").select("item", "label").iter_rows())
    assert [got[item] for item in whole.result_.votes.items.tolist()] == whole.labels_.tolist()


# -- tasks -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_tasks_give_their_results_in_order_and_their_errors_as_they_are(nodes: Any) -> None:
    def half(number: int, name: str) -> float:
        if number % 2:
            raise InputError(f"{name}: {number} is odd; use another")
        return number / 2

    with Ray(nodes.address) as engine:
        assert list(engine.map(half, ((number, "x.csv") for number in range(0, 40, 2)))) == list(range(20))
        results = engine.map(half, [(0, "x.csv"), (1, "x.csv"), (2, "x.csv")])
        assert next(results) == 0
        with pytest.raises(InputError, match=r"x\.csv: 1 is odd") as caught:
            next(results)
        assert type(caught.value) is InputError


# -- settings and security ---------------------------------------------------------------------

OWN = """
import json, os, subprocess, sys, threading
import psutil
from crowdwise import DawidSkene
from crowdwise.scale import Ray
from crowdwise.data.simulate import simulate


before = dict(os.environ)
votes = simulate(n_items=60, n_annotators=5, random_state=0).votes
seen = {}

def look(iteration, bound, change):
    import ray
    if seen:
        return
    everyone = [psutil.Process(), *psutil.Process().children(recursive=True)]
    tokens = {p.environ().get("RAY_AUTH_TOKEN", "") for p in everyone[1:]}
    sockets = [(p.name(), c.laddr.ip) for p in everyone for c in p.net_connections("inet") if c.status == "LISTEN"]
    address = ray.get_runtime_context().gcs_address
    ask = "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1]).internal_kv_keys(b'', None, timeout=5)"
    kinds = {"right": {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": max(tokens)}, "none": {"RAY_AUTH_MODE": "disabled"}}
    kinds["wrong"] = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}
    outcome = {}
    for name, given in kinds.items():
        words = [sys.executable, "-c", ask, address]
        outcome[name] = subprocess.run(words, env=before | given, capture_output=True, text=True, timeout=60).stderr
    folder = ray._private.worker._global_node.get_session_dir_path()
    seen.update(sockets=sockets, outcome=outcome, folder=folder, changed=[n for n in os.environ if n.startswith("RAY_AUTH")])
    seen["long"] = all(len(token) == 64 for token in tokens if token) and len(tokens - {""}) == 1
    root = folder.split("/ray/")[0]
    seen["mode"] = oct(os.stat(root).st_mode & 0o777)
    seen["n_processes"] = len(everyone)

with Ray(shards=2, actors=2) as engine:
    DawidSkene().fit(votes, engine=engine, progress=look)
    seen["place"] = engine.place
seen["left"] = [p.name() for p in psutil.wait_procs(psutil.Process().children(recursive=True), timeout=15)[1]]
seen["folder left"] = os.path.exists(seen["folder"])
with open(sys.argv[1], "w") as file:
    json.dump(seen, file)
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a program saw of the cluster that was started for it, and what it printed."""
    pytest.importorskip("psutil")
    target = tmp_path_factory.mktemp("own") / "seen.json"
    plain = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run([sys.executable, "-c", OWN, str(target)], capture_output=True, text=True, timeout=240, env=plain)
    assert done.returncode == 0, done.stderr
    return json.loads(target.read_text()) | {"printed": done.stdout + done.stderr}


@pytest.mark.slow
def test_a_cluster_of_our_own_listens_on_the_loopback_interface_alone(own: dict[str, Any]) -> None:
    assert len(own["sockets"]) > 3
    assert {address for _, address in own["sockets"]} <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


@pytest.mark.slow
def test_a_cluster_of_our_own_answers_nobody_without_its_token(own: dict[str, Any]) -> None:
    assert own["outcome"]["right"] == ""
    assert "token" in own["outcome"]["none"]
    assert "token" in own["outcome"]["wrong"]
    assert own["long"]
    assert own["mode"] == "0o700"


@pytest.mark.slow
def test_a_cluster_of_our_own_leaves_nothing_behind_and_says_nothing(own: dict[str, Any]) -> None:
    assert own["printed"] == ""
    assert own["left"] == []
    assert not own["folder left"]
    assert own["changed"] == []
    assert own["place"] == "2 Ray actors on 1 node (127.0.0.1)"


@pytest.mark.slow
def test_a_cluster_of_others_is_left_alone(nodes: Any) -> None:
    with Ray(nodes.address, shards=2) as engine:
        assert engine.n_workers == 4
    assert ray.is_initialized()
    with pytest.raises(SettingError, match="actors: 9 need as many cores, and the cluster has 4"):
        _ = Ray(nodes.address, actors=9).n_workers


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    votes = simulate(n_items=20, n_annotators=5, random_state=0).votes
    with pytest.raises(MissingExtraError, match=r"pip install 'crowdwise\[scale\]'"):
        make("majority").fit(votes, engine=Ray(shards=2))


@pytest.mark.parametrize("actors", [0, -1, 1.5, True])
def test_a_number_of_actors_that_is_none_is_refused(actors: Any) -> None:
    with pytest.raises(SettingError, match="actors must be a whole number >= 1"):
        Ray(actors=actors)


def written(votes: Annotations, path: Path) -> str:
    """The votes as a file."""
    frame = {
        "item": votes.items[votes.item],
        "annotator": votes.annotators[votes.annotator],
        "label": votes.classes[votes.label],
    }
    pl.DataFrame(frame).write_csv(path)
    return str(path)
