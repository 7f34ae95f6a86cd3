"""A served campaign that tests of a file share, and a PostgreSQL of one's own where it is installed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.serve.serving import Served

_NUMBER = count()
_BINARIES = [*Path("/usr/lib/postgresql").glob("*/bin"), *(Path(p) for p in os.environ.get("PATH", "").split(":") if p)]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    # Here, so that without the extra each file says itself what it lacks.
    from tests.serve.serving import serving, settings_in

    with serving(settings_in(tmp_path_factory.mktemp("campaign"))) as one:
        yield one


@pytest.fixture
def postgresql(postgresql_server: str) -> str:
    """The URL of an empty database."""
    import sqlalchemy as sa

    name = f"campaign{next(_NUMBER)}"
    engine = sa.create_engine(postgresql_server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return f"{postgresql_server.rpartition('/')[0]}/{name}"


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The URL of a server that was made for these tests."""
    pytest.importorskip("psycopg", reason="no psycopg here: PostgreSQL was not tried")
    initdb = next((folder / "initdb" for folder in _BINARIES if (folder / "initdb").exists()), None)
    postgres = next((folder / "postgres" for folder in _BINARIES if (folder / "postgres").exists()), None)
    if initdb is None or postgres is None:
        pytest.skip("no initdb here (Debian: apt install postgresql): PostgreSQL was not tried")
    # Not below the folder of the tests, which is nobody else's.
    made = tempfile.TemporaryDirectory(prefix="crowdwise-postgresql-")
    folder = Path(made.name)
    # It refuses to run as root.
    options: dict[str, Any] = {}
    if os.geteuid() == 0:
        try:
            shutil.chown(folder, "postgres")
        except LookupError:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres: it was not tried")
        options = {"user": "postgres", "group": "postgres", "extra_groups": []}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = ["-D", str(folder / "data")]
    subprocess.run(
        [initdb, *arguments, "-U", "crowdwise", "-A", "trust", "--no-sync"], check=True, capture_output=True, **options
    )
    settings = ["-c", "listen_addresses=127.0.0.1", "-c", f"port={port}", "-c", f"unix_socket_directories={folder}"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([postgres, *arguments, *settings, "-c", "fsync=off"], stderr=log, **options)
    try:
        until = time.monotonic() + 30
        while "ready to accept connections" not in (folder / "log").read_text():
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < until
            time.sleep(0.05)
        yield f"postgresql+psycopg://crowdwise@127.0.0.1:{port}/postgres"
    finally:
        # A fast end, which does not wait for those who are connected.
        process.send_signal(signal.SIGINT)
        process.wait(30)
        made.cleanup()
