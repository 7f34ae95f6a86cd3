"""The store: any duplicated, reordered, delayed delivery ends in the newest state of each vote; what is acknowledged stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from crowdwise.errors import InputError
from crowdwise.serve import schema
from crowdwise.serve.fitting import effective, read_votes
from crowdwise.serve.schema import deliveries, votes
from crowdwise.serve.store import Conflict, Store
from crowdwise.serve.votes import FINAL, Delivery, pair_ref

EXAMPLE = count()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    one = Store(f"sqlite:///{tmp_path_factory.mktemp('store')}/votes.db")
    yield one
    one.close()


def delivery(
    key: str, item: str = "i", who: str = "a", label: str | None = "x", action: str = "label", at: int = 0
) -> Delivery:
    return Delivery(key, pair_ref(item, who), item, who, label if action == "label" else None, action, at)


@st.composite
def histories(draw: Any) -> tuple[list[Delivery], list[list[int]]]:
    """Deliveries of a few votes with times of their own, and batches that bring each at least once, in any order."""
    n = draw(st.integers(1, 12))
    made = []
    for k in range(n):
        action = draw(st.sampled_from(["label", "label", "skip", "delete"]))
        item, who = draw(st.sampled_from("pq")), draw(st.sampled_from("ab"))
        # Two ids of a source may be about the same item and annotator.
        ref = draw(st.sampled_from([pair_ref(item, who), f"ref:1-{item}{who}"]))
        label = draw(st.sampled_from("xy")) if action == "label" else None
        made.append(Delivery(f"k{k}", ref, item, who, label, action, draw(st.integers(0, 4))))
    order = draw(st.permutations([*range(n), *draw(st.lists(st.integers(0, n - 1), max_size=8))]))
    cuts = sorted(draw(st.lists(st.integers(0, len(order)), max_size=3)))
    batches = [order[a:b] for a, b in zip([0, *cuts], [*cuts, len(order)], strict=True)]
    return made, batches


def newest(made: list[Delivery]) -> dict[str, Delivery]:
    """The oracle: of each reference, the delivery with the latest time, and of equals the one with the last key."""
    state: dict[str, Delivery] = {}
    for one in made:
        if one.ref not in state or (one.at, one.key) > (state[one.ref].at, state[one.ref].key):
            state[one.ref] = one
    return state


def check_history(store: Store, history: tuple[list[Delivery], list[list[int]]]) -> None:
    tag = f"{next(EXAMPLE)}-"
    made = [Delivery(tag + d.key, tag + d.ref, tag + str(d.item), d.annotator, d.label, d.action, d.at) for d in history[0]]
    taken = [store.take([made[n] for n in batch]) for batch in history[1]]
    outcomes = [outcome for future in taken for outcome in future.result()]
    assert len(outcomes) - outcomes.count("repeated") == len(made)
    rows = store.rows(sa.select(votes).where(votes.c.ref.startswith(tag)))
    expected = newest(made)
    assert {row.ref: (row.label, row.action, row.at) for row in rows} == {
        ref: (one.label, one.action, one.at) for ref, one in expected.items()
    }
    pairs: dict[Any, Delivery] = {}
    for one in expected.values():
        if one.action == "label" and ((one.item, one.annotator) not in pairs or one.rank > pairs[one.item, one.annotator].rank):
            pairs[one.item, one.annotator] = one
    counted = store.rows(
        sa.select(votes.c.annotator, sa.func.count()).where(votes.c.action == "label").group_by(votes.c.annotator)
    )
    assert +store.given == {row[0]: row[1] for row in counted}
    live = [(*tuple(row)[1:4], row.at, row.key) for row in rows if row.action == "label"]
    assert {(row[0], row[1]): row[2] for row in effective(live)} == {pair: one.label for pair, one in pairs.items()}


@given(histories())
def test_any_order_of_deliveries_gives_the_newest_state(store: Store, history: Any) -> None:
    check_history(store, history)


@pytest.mark.slow
def test_postgresql_keeps_the_same_promises(postgresql: str) -> None:
    store = Store(postgresql)
    try:
        with pytest.raises(InputError, match="is being served by another process"):
            Store(postgresql)

        @given(histories())
        def tried(history: Any) -> None:
            check_history(store, history)

        tried()
        revision, found, _, _ = read_votes(store.engine, ("x", "y"))
        assert revision == store.rows(sa.select(sa.func.max(deliveries.c.seq)))[0][0]
        assert found.n_votes == len(
            {(row.item, row.annotator) for row in store.rows(sa.select(votes)) if row.action == "label"}
        )
    finally:
        store.close()


def test_a_key_that_means_two_things_is_refused_with_all_of_its_request(store: Store) -> None:
    store.take([delivery("c-1", "c-i", label="x")]).result()
    before = store.rows(sa.select(sa.func.count()).select_from(deliveries))
    with pytest.raises(Conflict, match="c-1"):
        store.take([delivery("c-2", "c-j"), delivery("c-1", "c-i", label="y")]).result()
    with pytest.raises(Conflict):
        store.take([delivery("c-3", "c-k", label="x"), delivery("c-3", "c-k", label="y")]).result()
    assert store.rows(sa.select(sa.func.count()).select_from(deliveries)) == before


def test_a_vote_cannot_move_to_another_item(store: Store) -> None:
    store.take([Delivery("m-1", "ref:m", "m-i", "a", "x", "label", 1)]).result()
    with pytest.raises(Conflict, match="another item"):
        store.take([Delivery("m-2", "ref:m", "m-j", "a", "x", "label", 2)]).result()


def test_an_end_by_id_alone_may_come_before_the_beginning(store: Store) -> None:
    gone = Delivery("e-1", "ref:e", None, None, None, "delete", FINAL)
    assert store.take([gone]).result() == ["taken"]
    assert store.take([Delivery("e-2", "ref:e", "e-i", "a", "x", "label", 5)]).result() == ["older"]
    assert store.take([Delivery("f-1", "ref:f", "f-i", "a", "x", "label", 5)]).result() == ["taken"]
    assert store.take([Delivery("f-2", "ref:f", None, None, None, "delete", FINAL)]).result() == ["taken"]
    rows = {row.ref: (row.item, row.action) for row in store.rows(sa.select(votes).where(votes.c.ref.in_(["ref:e", "ref:f"])))}
    # The item stays, so that it is inferred again.
    assert rows == {"ref:e": (None, "delete"), "ref:f": ("f-i", "delete")}


def test_one_process_serves_a_campaign(store: Store) -> None:
    with pytest.raises(InputError, match="is being served by another process"):
        Store(store.engine.url.render_as_string())


def test_a_job_that_fails_takes_no_other_with_it(store: Store) -> None:
    def fail(connection: sa.Connection) -> None:
        connection.execute(sa.text("INSERT INTO meta VALUES ('half', 'done')"))
        raise ValueError("no")

    futures = [store.take([delivery("j-1", "j-i")]), store.submit(fail), store.take([delivery("j-2", "j-i", "b")])]
    assert futures[0].result() == ["taken"]
    with pytest.raises(ValueError, match="no"):
        futures[1].result()
    assert futures[2].result() == ["taken"]
    assert store.rows(sa.select(schema.meta).where(schema.meta.c.name == "half")) == []


def test_older_tables_become_these_and_newer_ones_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/old.db"
    Store(url).close()
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    monkeypatch.setattr(schema, "MIGRATIONS", {schema.VERSION - 1: ("ALTER TABLE items ADD COLUMN remark TEXT",)})
    store = Store(url)
    assert "remark" in {column["name"] for column in sa.inspect(store.engine).get_columns("items")}
    store.close()
    monkeypatch.undo()
    with pytest.raises(InputError, match="later crowdwise"):
        Store(url)


@pytest.mark.parametrize(
    ("url", "words"),
    [("sqlite://", "lost"), ("nonsense", "no database"), ("sqlite:////no/such/folder/x.db", "cannot be written")],
)
def test_a_store_that_cannot_be_is_refused(url: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Store(url)


# Takes votes as fast as it can, and says of each when it was acknowledged.
WRITER = """
import sys
import threading
from crowdwise.serve.store import Store
from crowdwise.serve.votes import Delivery
store, first = Store(sys.argv[1]), int(sys.argv[2])
pending = []
for n in range(first, first + 100_000):
    pending.append((n, store.take([Delivery(f"k{n}", f"r{n}", f"i{n % 7}", "a", "x", "label", n)])))
    if len(pending) == 8:
        number, future = pending.pop(0)
        future.result()
        sys.stdout.write(f"{number}\\n")
        sys.stdout.flush()
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL there")
def test_what_was_acknowledged_survives_sigkill(tmp_path: Path) -> None:
    url, acknowledged, first = f"sqlite:///{tmp_path}/votes.db", set[int](), 0
    for kill in range(3):
        process = subprocess.Popen([sys.executable, "-c", WRITER, url, str(first)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            acknowledged.add(int(line))
            if len(acknowledged) >= 40 * (kill + 1):
                os.kill(process.pid, signal.SIGKILL)
                break
        rest, _ = process.communicate()
        acknowledged |= {int(line) for line in rest.splitlines() if line}
        # What was under way may be there or not; it is sent again.
        first = max(acknowledged) + 1
    store = Store(url)
    try:
        keys = [row[0] for row in store.rows(sa.select(deliveries.c.key))]
        assert {f"k{n}" for n in acknowledged} <= set(keys)
        assert len(keys) == len(set(keys))
        again = [Delivery(f"k{n}", f"r{n}", f"i{n % 7}", "a", "x", "label", n) for n in sorted(acknowledged)]
        assert set(store.take(again).result()) == {"repeated"}
    finally:
        store.close()


def test_rows_of_a_transaction_that_failed_are_written_again(tmp_path: Path) -> None:
    """Jobs share a transaction: what one of them saw of another's items is gone when a third one fails."""
    one = Store(f"sqlite:///{tmp_path}/votes.db")
    try:
        begun, go = threading.Event(), threading.Event()

        def hold(connection: sa.Connection) -> None:
            begun.set()
            assert go.wait(30)

        def fail(connection: sa.Connection) -> None:
            raise ValueError("no")

        first = one.submit(hold)
        assert begun.wait(30)
        # These wait together, and are put into one transaction.
        jobs = [one.submit(lambda connection: one.add_items(connection, [("x", None)])) for _ in range(2)]
        failed = one.submit(fail)
        go.set()
        first.result(30)
        assert [job.result(30) for job in jobs] == [1, 0]
        with pytest.raises(ValueError, match="no"):
            failed.result(30)
        assert [row.item for row in one.rows(sa.select(schema.items))] == ["x"]
    finally:
        one.close()
