"""The tables of a live campaign, and how older ones become these.

deliveries   every delivery by the caller's key, in the order of arrival (`seq`); never changed
votes        the newest state of every vote, by its reference; deleted ones stay as tombstones
items, annotators, tokens, leases, audits, checks, snapshots, meta
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from crowdwise.errors import InputError

__all__ = ["METADATA", "VERSION", "annotators", "audits", "checks", "deliveries", "items", "leases", "meta", "migrate"]
__all__ += ["open_engine", "snapshots", "tokens", "votes"]

VERSION = 1
METADATA = sa.MetaData()
# SQLite orders text by bytes and PostgreSQL by its locale; nothing here relies on either.
_NAME = sa.Text()

meta = sa.Table("meta", METADATA, sa.Column("name", _NAME, primary_key=True), sa.Column("value", sa.Text, nullable=False))
deliveries = sa.Table(
    "deliveries",
    METADATA,
    sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=False),
    sa.Column("key", _NAME, nullable=False, unique=True),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("received", sa.BigInteger, nullable=False),
)
votes = sa.Table(
    "votes",
    METADATA,
    sa.Column("ref", _NAME, primary_key=True),
    # Unknown where a source reports the end of a vote before its beginning.
    sa.Column("item", _NAME),
    sa.Column("annotator", _NAME),
    sa.Column("label", _NAME),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("key", _NAME, nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Index("votes_by_item", "item", "annotator"),
    sa.Index("votes_by_seq", "seq"),
    sa.Index("votes_by_annotator", "annotator"),
)
items = sa.Table(
    "items",
    METADATA,
    sa.Column("position", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=False),
    sa.Column("item", _NAME, nullable=False, unique=True),
    sa.Column("content", sa.Text),
    sa.Column("truth", _NAME),
)
annotators = sa.Table(
    "annotators",
    METADATA,
    sa.Column("annotator", _NAME, primary_key=True),
    sa.Column("capacity", sa.BigInteger),
    sa.Column("cost", sa.Float, nullable=False),
)
tokens = sa.Table(
    "tokens",
    METADATA,
    # A hash: whoever reads the database learns no token.
    sa.Column("hash", sa.Text, primary_key=True),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("name", _NAME, nullable=False),
)
leases = sa.Table(
    "leases",
    METADATA,
    sa.Column("item", _NAME, primary_key=True),
    sa.Column("annotator", _NAME, primary_key=True),
    sa.Column("expires", sa.BigInteger, nullable=False),
)
audits = sa.Table(
    "audits",
    METADATA,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("began", sa.BigInteger, nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
    # What `crowdwise.campaign.certified.begun` froze, and the labels of all items then, as JSON.
    sa.Column("design", sa.Text, nullable=False),
    sa.Column("labels", sa.LargeBinary, nullable=False),
)
checks = sa.Table(
    "checks",
    METADATA,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("item", _NAME, primary_key=True),
    sa.Column("label", _NAME, nullable=False),
    sa.Column("by", _NAME, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
)
snapshots = sa.Table(
    "snapshots",
    METADATA,
    sa.Column("at", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("facts", sa.Text, nullable=False),
)


def open_engine(url: str) -> sa.Engine:
    """Connect to a database; SQLite keeps a write-ahead log, so that readers never wait for the writer."""
    try:
        made = sa.make_url(url)
        options: dict[str, Any] = {}
        if made.get_backend_name() == "sqlite":
            # A connection is used by one thread at a time, by whichever has it.
            options = {"connect_args": {"check_same_thread": False, "timeout": 30}, "poolclass": sa.pool.QueuePool}
        engine = sa.create_engine(made, pool_size=8, max_overflow=8, **options)
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ModuleNotFoundError) as problem:
        raise InputError(f'no database {url!r:.80}: {problem!s:.200}; store = "campaign.db" is a file') from problem
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _pragmas)
    return engine


def _pragmas(connection: Any, _: Any) -> None:
    cursor = connection.cursor()
    # FULL: a commit is on the disk before it is acknowledged, also where the machine loses power.
    for line in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=30000"):
        cursor.execute(f"PRAGMA {line}")
    cursor.close()


# How tables of version n become those of n + 1: statements that both databases know.
MIGRATIONS: dict[int, tuple[str, ...]] = {}


def migrate(engine: sa.Engine) -> None:
    """Make the tables, or bring older ones up to date, in one transaction; newer ones are refused."""
    with engine.begin() as connection:
        if not sa.inspect(connection).has_table("meta"):
            METADATA.create_all(connection)
            connection.execute(meta.insert().values(name="schema", value=str(VERSION)))
            return
        found = connection.execute(sa.select(meta.c.value).where(meta.c.name == "schema")).scalar()
        version = int(found) if found is not None and found.isdigit() else 0
        if not 0 < version <= VERSION:
            raise InputError(
                f"{engine.url.render_as_string()} was written by a later crowdwise, or is no campaign (tables {found!r}, known "
                f"up to {VERSION}); upgrade: pip install --upgrade 'crowdwise[serve]', or name another store"
            )
        for number in range(version, VERSION):
            for statement in MIGRATIONS[number]:
                connection.execute(sa.text(statement))
        connection.execute(meta.update().where(meta.c.name == "schema").values(value=str(VERSION)))
