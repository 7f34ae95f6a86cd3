"""The command: writes a file, makes tokens, serves; without the extra it says what to install."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from crowdwise.errors import InputError, SettingError
from crowdwise.serve import Client
from crowdwise.serve.command import Options, run


def test_a_new_file_and_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "campaign.toml"
    run(Options(campaign=path, new=True))
    assert "wrote" in capsys.readouterr().err
    run(Options(campaign=path, token="anna"))
    first = capsys.readouterr().out.strip()
    run(Options(campaign=path, token="anna"))
    assert len(first) == 43
    assert capsys.readouterr().out.strip() != first
    # The database holds no token.
    assert first.encode() not in (tmp_path / "campaign.db").read_bytes()
    assert (tmp_path / "campaign.db").stat().st_mode & 0o077 == 0
    with pytest.raises(SettingError, match="--role must be one of"):
        run(Options(campaign=path, token="anna", role="king"))
    with pytest.raises(InputError, match="--token must be text"):
        run(Options(campaign=path, token="a\nb"))


def test_without_the_extra_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(Options(campaign=tmp_path / "c.toml", new=True))
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "crowdwise.serve.running", raising=False)
    with pytest.raises(InputError, match=r"needs uvicorn: pip install 'crowdwise\[serve\]'"):
        run(Options(campaign=tmp_path / "c.toml"))


def test_a_port_in_use_is_refused(tmp_path: Path) -> None:
    import socket

    run(Options(campaign=tmp_path / "c.toml", new=True))
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(InputError, match="cannot listen at 127"):
        run(Options(campaign=tmp_path / "c.toml", port=taken.getsockname()[1]))


def test_the_start_says_what_deserves_a_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import uvicorn
    from tests.serve.serving import InlineFitter

    from crowdwise.serve import brain
    from crowdwise.serve.running import serve
    from crowdwise.serve.settings import read_settings

    async def stop(_: uvicorn.Server) -> None:
        """Once everything has started."""

    monkeypatch.setattr(uvicorn.Server, "main_loop", stop)
    monkeypatch.setattr(brain, "Fitter", InlineFitter)
    path, said = tmp_path / "c.toml", list[str]()
    (tmp_path / "items.csv").write_text("item,picture\na,signs/1.png\n")
    path.write_text('[campaign]\nclasses = ["a", "b"]\nitems = "items.csv"\n[server]\nhost = "0.0.0.0"\n')
    serve(read_settings(path), None, 0, said.append)
    assert "the picture 'signs/1.png' of item 'a' will be seen as text" in said[3]
    assert "other machines are refused: name the address" in said[4]
    said.clear()
    (tmp_path / "d.toml").write_text(path.read_text() + 'hosts = ["192.168.1.20"]\n')
    serve(read_settings(tmp_path / "d.toml"), None, 0, said.append)
    assert not [line for line in said if "refused" in line]


def test_a_campaign_that_is_served_already_says_where(tmp_path: Path) -> None:
    from crowdwise.serve.settings import read_settings
    from crowdwise.serve.store import Store

    path = tmp_path / "c.toml"
    run(Options(campaign=path, new=True))
    url = read_settings(path).url
    store = Store(url)
    try:
        store.serves_at("http://127.0.0.1:8765")
        for options in (Options(campaign=path), Options(campaign=path, token="anna")):
            with pytest.raises(InputError, match=r"is being served by another process at http://127\.0\.0\.1:8765"):
                run(options)
    finally:
        store.close()
    store = Store(url)
    try:
        # Whoever had it before is gone.
        with pytest.raises(InputError, match="is being served by another process: use that"):
            Store(url)
    finally:
        store.close()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL there")
def test_a_served_campaign_survives_sigkill(tmp_path: Path) -> None:
    path, token, given = tmp_path / "campaign.toml", "", 0
    run(Options(campaign=path, new=True))
    for end in (signal.SIGKILL, signal.SIGTERM):
        line = [sys.executable, "-m", "crowdwise", "serve", str(path), "--port", "0"]
        process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        url = re.search(r"http://\S+", process.stderr.readline()).group()  # type: ignore[union-attr]
        if not token:
            token = process.stderr.readline().rsplit(" ", 1)[1].strip()
            assert process.stderr.readline().strip().endswith(f"{url}/#{token}")
        client = Client(url, token)
        assert client.progress()["votes"] == given
        for n in range(given, given + 5):
            assert client.vote(f"i{n}", "cat", annotator="anna", key=f"k{n}") == "taken"
        given += 5
        assert client.vote("i0", "cat", annotator="anna", key="k0") == "repeated"
        os.kill(process.pid, end)
        process.communicate(timeout=30)
