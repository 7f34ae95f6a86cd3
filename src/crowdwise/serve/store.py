"""The votes of a live campaign in a database: one writer, any number of readers; what was committed is all there is.

Every change is a job for the one writing thread. It puts what waits into one transaction, so that many small requests share a
commit, and answers when the transaction is on the disk: what a caller was told is there, whatever happens to the process.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from crowdwise.errors import InputError
from crowdwise.io.lock import try_hold
from crowdwise.serve import schema
from crowdwise.serve.schema import annotators, deliveries, items, leases, meta, votes
from crowdwise.serve.votes import Delivery

__all__ = ["Busy", "Conflict", "Store", "upsert"]

T = TypeVar("T")
# Jobs in one transaction, jobs that may wait, and values in one IN (...).
_TOGETHER, _WAITING, _CHUNK = 500, 5_000, 500
# Of an advisory lock of PostgreSQL; and of the row that says where the campaign is served.
_LOCK, _ADDRESS = 0x63726F77, "address"


class Conflict(InputError):
    """A key that was used for something else."""


class Busy(InputError):
    """More waits to be written than should."""


class Store:
    """A campaign's database, held by one process at a time.

    Parameters
    ----------
    url : str
        As SQLAlchemy takes it.
    """

    def __init__(self, url: str) -> None:
        self.engine = schema.open_engine(url)
        self._held: Any = None
        try:
            self._held = self._hold()
            schema.migrate(self.engine)
            with self.engine.begin() as connection:
                # Of whoever served it before.
                connection.execute(meta.delete().where(meta.c.name == _ADDRESS))
        except BaseException:
            self._let_go()
            raise
        self._jobs: queue.Queue[tuple[Callable[[sa.Connection], Any] | list[Delivery], Future[Any]] | None] = queue.Queue(
            _WAITING
        )
        self.committed = threading.Event()
        self._known: dict[str, set[str]] = {}
        self._forget()
        counted = sa.select(votes.c.annotator, sa.func.count()).where(votes.c.action == "label").group_by(votes.c.annotator)
        # Votes that count by annotator.
        self.given: Counter[str] = Counter({row[0]: row[1] for row in self.rows(counted)})
        self._writer = threading.Thread(target=self._write, name="crowdwise-writer", daemon=True)
        self._writer.start()

    def serves_at(self, place: str) -> None:
        """Say where this campaign is served, to whoever tries to serve it again."""
        self.submit(lambda connection: upsert(connection, meta, [{"name": _ADDRESS, "value": place}])).result()

    def close(self) -> None:
        """Write what waits, and let go."""
        self._jobs.put(None)
        self._writer.join()
        self._let_go()

    def _let_go(self) -> None:
        if isinstance(self._held, int):
            os.close(self._held)
        elif self._held is not None:
            self._held.close()
        self.engine.dispose()

    # -- writing -------------------------------------------------------------------------------

    def submit(self, job: Callable[[sa.Connection], T]) -> Future[T]:
        """Let the writer run a job in a transaction; the future has its value once that is committed."""
        return self._queue(job)

    def execute(self, statement: Any) -> Future[None]:
        """Let the writer run one statement."""

        def job(connection: sa.Connection) -> None:
            connection.execute(statement)

        return self.submit(job)

    def take(self, given: Sequence[Delivery]) -> Future[list[str]]:
        """Take deliveries in, all or none: for each "taken", "repeated" or "older"; `Conflict` where a key means two things."""
        return self._queue(list(given))

    def _queue(self, job: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            self._jobs.put_nowait((job, done))
        except queue.Full:
            done.set_exception(Busy("too many requests wait to be written; try again in a second"))
        return done

    def _write(self) -> None:
        # One connection for good: a new one from the pool for every transaction costs as much as a query.
        with self.engine.connect() as connection:
            self._connection = connection
            self._write_all()

    def _write_all(self) -> None:
        while (first := self._jobs.get()) is not None:
            together, last = [first], False
            while len(together) < _TOGETHER and not self._jobs.empty():
                job = self._jobs.get()
                if job is None:
                    last = True
                    break
                together.append(job)
            try:
                self._commit(together)
            except Exception:
                # One job may be to blame: each gets a transaction of its own.
                for job in together:
                    self._forget()
                    try:
                        self._commit([job])
                    except Exception as problem:
                        job[1].set_exception(problem)
                self._forget()
            self.committed.set()
            if last:
                return

    def _forget(self) -> None:
        """What a transaction saw of another job's rows was not there, if it was not committed."""
        self._known = {"items": set(), "annotators": set()}

    def _commit(self, jobs: list[tuple[Any, Future[Any]]]) -> None:
        votes_in = [job for job, _ in jobs if isinstance(job, list)]
        more: Counter[str] = Counter()
        connection = self._connection
        with connection.begin():
            taken = iter(self._take(connection, votes_in, more) if votes_in else [])
            answers = [next(taken) if isinstance(job, list) else job(connection) for job, _ in jobs]
        self.given.update(more)
        for (_, done), answer in zip(jobs, answers, strict=True):
            if isinstance(answer, Conflict):
                done.set_exception(answer)
            else:
                done.set_result(answer)

    def _take(
        self, connection: sa.Connection, requests: list[list[Delivery]], more: Counter[str]
    ) -> list[list[str] | Conflict]:
        """Outcomes of every request; `more` takes by how many every annotator's votes have grown."""
        everything = [one for request in requests for one in request]
        keys = self.look_up(connection, deliveries, "key", {one.key for one in everything}, "digest")
        known = {key: row.digest for key, row in keys.items()}
        there = self.look_up(connection, votes, "ref", {one.ref for one in everything})
        state = {ref: dict(row._mapping) for ref, row in there.items()}
        seq = connection.execute(sa.select(sa.func.max(deliveries.c.seq))).scalar() or 0
        received, written = _now(), []
        changed: dict[str, dict[str, Any]] = {}
        answers: list[list[str] | Conflict] = []
        for request in requests:
            found = _conflict(request, known, state)
            if found is not None:
                answers.append(found)
                continue
            outcomes = []
            for one in request:
                if one.key in known:
                    outcomes.append("repeated")
                    continue
                seq += 1
                known[one.key] = one.digest()
                written.append({"seq": seq, "key": one.key, "digest": known[one.key], "received": received})
                newest = state.get(one.ref)
                if newest is not None and one.rank <= (newest["at"], newest["key"]):
                    outcomes.append("older")
                    continue
                row: dict[str, Any] = {
                    "ref": one.ref,
                    "item": one.item,
                    "annotator": one.annotator,
                    "label": one.label,
                    "action": one.action,
                }
                row |= {"at": one.at, "key": one.key, "seq": seq}
                if newest is not None:
                    # A source that ends a vote may know its id alone.
                    row |= {name: row[name] or newest[name] for name in ("item", "annotator")}
                state[one.ref] = changed[one.ref] = row
                outcomes.append("taken")
            answers.append(outcomes)
        if written:
            connection.execute(deliveries.insert(), written)
        if changed:
            rows = list(changed.values())
            upsert(connection, votes, rows)
            for row in rows:
                before = there.get(row["ref"])
                counted = before is not None and before.action == "label"
                if row["annotator"] is not None:
                    more[row["annotator"]] += (row["action"] == "label") - counted
            self._register(connection, rows)
        return answers

    def _register(self, connection: sa.Connection, rows: list[dict[str, Any]]) -> None:
        """Items and annotators that were not there; questions that were answered are no longer open."""
        named = [row for row in rows if row["item"] is not None and row["annotator"] is not None]
        if not named:
            return
        self.add_items(connection, [(row["item"], None) for row in named])
        self.add_annotators(connection, [{"annotator": name} for name in {row["annotator"]: None for row in named}])
        for start in range(0, len(named), _CHUNK):
            pairs = [(row["item"], row["annotator"]) for row in named[start : start + _CHUNK]]
            connection.execute(_ANSWERED, {"values": pairs})

    def add_items(self, connection: sa.Connection, given: Iterable[tuple[str, str | None]]) -> int:
        """Make items known, with what is shown of them; those that are there stay as they are. Returns how many were new."""
        wanted = {item: content for item, content in given if item not in self._known["items"]}
        there = self.look_up(connection, items, "item", set(wanted))
        new = {item: content for item, content in wanted.items() if item not in there}
        position = connection.execute(sa.select(sa.func.max(items.c.position))).scalar() if new else 0
        first = -1 if position is None else position
        rows = [{"position": first + n, "item": item, "content": content} for n, (item, content) in enumerate(new.items(), 1)]
        if rows:
            connection.execute(items.insert(), rows)
        # What was seen to be there stays there; new ones only once they are committed.
        self._known["items"] |= set(there)
        return len(rows)

    def show_items(self, connection: sa.Connection, given: Iterable[tuple[str, str | None]]) -> int:
        """Take over what is shown of items that are there, where something is; returns of how many it was something else."""
        wanted = {item: content for item, content in given if content is not None}
        there = self.look_up(connection, items, "item", set(wanted), "content")
        changed = [{"named": item, "shown": wanted[item]} for item, row in there.items() if row.content != wanted[item]]
        if changed:
            connection.execute(_SHOWN, changed)
        return len(changed)

    def add_annotators(self, connection: sa.Connection, rows: list[dict[str, Any]]) -> None:
        """Make annotators known; those that are there are left as they are."""
        wanted = {row["annotator"]: row for row in rows if row["annotator"] not in self._known["annotators"]}
        there = self.look_up(connection, annotators, "annotator", set(wanted))
        new = [{"capacity": None, "cost": 1.0} | row for name, row in wanted.items() if name not in there]
        if new:
            connection.execute(annotators.insert(), new)
        self._known["annotators"] |= set(there)

    # -- reading -------------------------------------------------------------------------------

    @staticmethod
    def look_up(connection: sa.Connection, table: sa.Table, column: str, values: set[str], *columns: str) -> dict[str, Any]:
        """Rows of a table by the values of a unique column."""
        found: dict[str, Any] = {}
        ordered = sorted(values)
        query = _looking_up(table, column, columns)
        for start in range(0, len(ordered), _CHUNK):
            rows = connection.execute(query, {"values": ordered[start : start + _CHUNK]})
            found |= {getattr(row, column): row for row in rows}
        return found

    def rows(self, query: Any) -> list[Any]:
        """Rows of a query."""
        with self.engine.connect() as connection:
            return list(connection.execute(query))

    def newest(self) -> int:
        """The last delivery that is in the database; 0 where there is none."""
        return int(self.rows(sa.select(sa.func.max(deliveries.c.seq)))[0][0] or 0)

    def _hold(self) -> Any:
        """Be the one process that serves this campaign; the system lets go of it when the process dies."""
        name = self.engine.url.render_as_string()
        if self.engine.dialect.name == "sqlite":
            database = self.engine.url.database
            if not database or database == ":memory:":
                raise InputError('votes in memory would be lost; name a file: store = "campaign.db"')
            try:
                file = os.open(Path(f"{database}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
            except OSError as problem:
                raise InputError(
                    f"{database} cannot be written ({problem.strerror}); name another place for store"
                ) from problem
            if not try_hold(file):
                os.close(file)
                raise InputError(f"{name} {self._where()}")
            if not os.path.exists(database):
                # Votes and hashes of tokens are nobody else's.
                os.close(os.open(database, os.O_RDWR | os.O_CREAT, 0o600))
            return file
        try:
            connection = self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        except sa.exc.OperationalError as problem:
            raise InputError(f"{name} cannot be reached: {str(problem.orig).strip()!s:.200}") from problem
        if not connection.execute(sa.select(sa.func.pg_try_advisory_lock(_LOCK))).scalar():
            connection.close()
            raise InputError(f"{name} {self._where()}")
        return connection

    def _where(self) -> str:
        """Words for whoever comes second."""
        place = None
        with suppress(sa.exc.SQLAlchemyError), self.engine.connect() as connection:
            place = connection.execute(sa.select(meta.c.value).where(meta.c.name == _ADDRESS)).scalar()
        at = f" at {place}" if place else ""
        return f"is being served by another process{at}: use that (POST /annotators makes tokens), or stop it first"


def upsert(connection: sa.Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    """Insert rows, or overwrite those with the same primary key."""
    connection.execute(_upserting(connection.dialect.name, table, tuple(rows[0])), rows)


# Statements are built once: it takes longer than to run them.
_VALUES: sa.BindParameter[Any] = sa.bindparam("values", expanding=True)
_ANSWERED = leases.delete().where(sa.tuple_(leases.c.item, leases.c.annotator).in_(_VALUES))

_SHOWN = items.update().where(items.c.item == sa.bindparam("named")).values(content=sa.bindparam("shown"))


@cache
def _looking_up(table: sa.Table, column: str, columns: tuple[str, ...]) -> Any:
    wanted = [table.c[column], *(table.c[name] for name in columns)] if columns else list(table.c)
    return sa.select(*wanted).where(table.c[column].in_(_VALUES))


@cache
def _upserting(dialect: str, table: sa.Table, columns: tuple[str, ...]) -> Any:
    if dialect == "postgresql":
        from sqlalchemy.dialects.postgresql import insert
    else:
        from sqlalchemy.dialects.sqlite import insert  # type: ignore[assignment]
    made = insert(table)
    keys = [column.name for column in table.primary_key]
    others = {name: made.excluded[name] for name in columns if name not in keys}
    return made.on_conflict_do_update(index_elements=keys, set_=others)


def _conflict(request: list[Delivery], known: dict[str, str], state: dict[str, dict[str, Any]]) -> Conflict | None:
    own: dict[str, str] = {}
    for one in request:
        digest = one.digest()
        if known.get(one.key, own.setdefault(one.key, digest)) != digest or own[one.key] != digest:
            return Conflict(f"the key {one.key!r:.80} was used for another vote; use a new key for what is new")
        row = state.get(one.ref)
        moved = row is not None and any(
            None not in (row[name], getattr(one, name)) and row[name] != getattr(one, name) for name in ("item", "annotator")
        )
        if moved:
            return Conflict(f"the vote {one.ref!r:.80} is about another item or by somebody else")
    return None


def _now() -> int:
    return time.time_ns() // 1000
