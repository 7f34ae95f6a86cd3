"""A campaign and a fake Label Studio that are connected."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.serve.label_studio.fake import Fake
    from tests.serve.serving import Served

Connect = Callable[..., Any]


@pytest.fixture
def connected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Serve a campaign on a fake: `with connected(fake, "front = 4") as served`; the same folder each time."""
    from tests.serve.label_studio.fake import TOKEN
    from tests.serve.serving import serving, settings_in

    from crowdwise.serve import brain
    from crowdwise.serve.label_studio import bridge

    monkeypatch.setenv("LABEL_STUDIO_API_KEY", TOKEN)
    for name in ("_STEP", "_LOOK"):
        monkeypatch.setattr(bridge, name, 0.02)
    for name in ("_QUICK", "_IDLE", "_LIST"):
        monkeypatch.setattr(brain, name, 0.03)

    ports: list[int] = []

    @contextmanager
    def made(fake: Fake, more: str = "", questions: str = "") -> Iterator[Served]:
        text = (
            '[campaign]\nclasses = ["yes", "no"]\nnew_items = true\n[inference]\nrefit_votes = 1\nrefit_seconds = 1.0\n'
            f"[server]\nrate = 1000.0\n[questions]\nexplore = 0.0\n{questions}\n"
            f'[label_studio]\nurl = "{fake.url}"\nproject = 1\nquestion = "answer"\n'
            f"per_second = 1000\ncheck_seconds = 1\n{more}\n"
        )
        # The same address each time.
        listening = socket.create_server(("127.0.0.1", ports[0] if ports else 0))
        ports[:] = [listening.getsockname()[1]]
        text += f'here = "http://127.0.0.1:{ports[0]}"\n'
        with serving(settings_in(tmp_path, text), listening=listening) as served:
            yield served

    return made


def until(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


@pytest.fixture
def settled() -> Callable[[Served], None]:
    """Wait until both sides are the same."""

    def wait(served: Served) -> None:
        for _ in range(2):
            until(lambda: served.call("GET", "/label-studio").json()["settled"])
            # The list of questions follows the fit.
            time.sleep(0.15)

    return wait
