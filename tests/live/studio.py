"""A Label Studio of one's own: the pip package from `.venv-label-studio`, SQLite in a folder, this machine alone."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from crowdwise.serve.label_studio.api import Away, LabelStudio, Refused

PLACE = Path(__file__).parents[2] / ".venv-label-studio"
PROGRAM = PLACE / "bin" / "label-studio"
# A folder with an empty database: making one takes half a minute.
EMPTY = PLACE / "empty"
TOKEN = "0123456789abcdef0123456789abcdef01234567"
CONFIG = (
    '<View><Text name="text" value="$text"/><Choices name="answer" toName="text" choice="single">'
    '<Choice value="yes"/><Choice value="no"/></Choices></View>'
)


class Studio:
    """Starts it, kills it, starts it again with what it had."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if EMPTY.exists():
            shutil.copytree(EMPTY, folder, dirs_exist_ok=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.api = LabelStudio(self.url, TOKEN, timeout=60)
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        known = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "LANG", "TMPDIR")}
        about = {"BASE_DATA_DIR": str(self.folder), "USERNAME": "lead@example.org", "PASSWORD": "correct horse battery"}
        about |= {"USER_TOKEN": TOKEN, "ENABLE_LEGACY_API_TOKEN": "true"}
        # Nothing goes out, and webhooks may come to this machine.
        quiet = {"COLLECT_ANALYTICS": "False", "LATEST_VERSION_CHECK": "False", "SENTRY_DSN": "", "FRONTEND_SENTRY_DSN": ""}
        local = {"SSRF_PROTECTION_ENABLED": "false", "ML_BLOCK_LOCAL_IP": "false", "LOG_LEVEL": "WARNING"}
        line = [PROGRAM, "start", "--no-browser", "--internal-host", "127.0.0.1", "--host", self.url, "--port", str(self.port)]
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                line,
                cwd=self.folder,
                env=known | {f"LABEL_STUDIO_{key}": value for key, value in about.items()} | quiet | local,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self, seconds: float = 120.0) -> None:
        until = time.monotonic() + seconds
        while True:
            try:
                self.api.get("/api/version")
                self.api.get("/api/users/")
                return
            except (Away, Refused):
                assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
                assert time.monotonic() < until, (self.folder / "log").read_text()[-2000:]
                time.sleep(0.3)

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def restart(self) -> None:
        self.process = self._start()
        self.wait()

    def project(self, n: int, **more: Any) -> int:
        number = int(self.api.call("POST", "/api/projects/", {"title": "A project", "label_config": CONFIG, **more})["id"])
        self.api.call("POST", f"/api/projects/{number}/import", [{"text": f"text {k}"} for k in range(n)])
        return number

    def person(self, name: str) -> LabelStudio:
        """Somebody who signs up with the invitation, as people do; a client that speaks as them."""
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(cookies := CookieJar()))
        page = self.url + self.api.get("/api/invite")["invite_url"]
        opener.open(page, timeout=60).read()
        secret = next(one.value for one in cookies if one.name == "csrftoken")
        form = {"email": f"{name}@example.org", "password": "correct horse battery", "csrfmiddlewaretoken": secret}
        opener.open(page, urlencode(form | {"how_find_us": "other", "allow_newsletters": ""}).encode(), timeout=60).read()
        token = json.loads(opener.open(f"{self.url}/api/current-user/token", timeout=60).read())["token"]
        return LabelStudio(self.url, token, timeout=60)


def prepare() -> None:
    """Make the empty database."""
    if EMPTY.exists():
        return
    part = PLACE / "empty.part"
    shutil.rmtree(part, ignore_errors=True)
    studio = Studio(part)
    try:
        studio.wait(600)
    finally:
        os.killpg(studio.process.pid, signal.SIGTERM)  # a shell may ignore SIGINT on behalf of what it starts
        studio.process.wait(30)
    (part / "log").unlink()
    part.rename(EMPTY)


if __name__ == "__main__":
    prepare()
