"""A campaign as people start it: `crowdwise serve` in a process of its own, beside a real Label Studio."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.live.studio import TOKEN, Studio

from crowdwise.errors import InputError
from crowdwise.serve import Client

ENVIRONMENT = os.environ | {"LABEL_STUDIO_API_KEY": TOKEN}


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of crowdwise in a folder."""
    line = [sys.executable, "-m", "crowdwise", *words]
    return subprocess.run(line, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True)


class Campaign:
    """Connects a project, and serves it; can be killed and started again."""

    def __init__(self, folder: Path, studio: Studio, project: int, more: str = "") -> None:
        self.folder, self.studio = folder, studio
        folder.mkdir(parents=True, exist_ok=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.connect = ["label-studio", "connect", "--url", studio.url, "--project", str(project), "--here", self.url]
        self.said = self._run(*self.connect)
        path = folder / "campaign.toml"
        text = path.read_text()
        # The same keys may stand in the file already as comments only.
        text = text.replace("# refit_votes = 200", "refit_votes = 40").replace("# refit_seconds = 60.0", "refit_seconds = 2.0")
        path.write_text(f"{text}check_seconds = 5\nper_second = 100\n{more}")
        self.token = self._run("serve", "campaign.toml", "--token", "lead", "--role", "lead").strip()
        self.client = Client(self.url, self.token, timeout=60)
        self.process = self._start()

    def _run(self, *words: str) -> str:
        done = command(self.folder, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout or done.stderr

    def _start(self) -> subprocess.Popen[bytes]:
        line = [sys.executable, "-m", "crowdwise", "serve", "campaign.toml", "--port", str(self.port)]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(line, cwd=self.folder, env=ENVIRONMENT, stderr=log)

    def state(self) -> dict[str, Any]:
        return dict(self.client.call("GET", "/label-studio"))

    def wait(self, what: Any, seconds: float = 900.0) -> Any:
        """Wait until something is so."""
        until, found = time.monotonic() + seconds, None
        while time.monotonic() < until:
            try:
                found = what()
                if found:
                    return found
            except InputError as problem:
                found = problem
            assert self.process.poll() is None, (self.folder / "log").read_text()[-3000:]
            time.sleep(0.1)
        try:
            found = self.state()
        except InputError as problem:
            found = problem
        raise AssertionError((found, (self.folder / "log").read_text()[-3000:]))

    def settle(self) -> None:
        """Wait until both sides are the same and nothing waits to be written."""
        for _ in range(2):
            self.wait(lambda: (one := self.state())["settled"] and one["linked"])
            time.sleep(1.2)

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def restart(self) -> None:
        self.process = self._start()

    def votes(self) -> dict[str, tuple[Any, ...]]:
        """Every annotation that is kept here: task, person, label."""
        import sqlite3

        with sqlite3.connect(self.folder / "campaign.db") as connection:
            rows = connection.execute("SELECT ref, item, annotator, label, action FROM votes").fetchall()
        return {row[0]: row[1:4] for row in rows if row[4] != "delete"}
