"""The campaign's file: what is wrong is said with file, key and remedy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from crowdwise.errors import CrowdwiseError, SettingError
from crowdwise.serve.settings import TEMPLATE, Settings, read_settings, write_template

CAMPAIGN = '[campaign]\nclasses = ["cat", "dog"]\n'


def test_the_template_is_a_campaign(tmp_path: Path) -> None:
    write_template(tmp_path / "campaign.toml")
    settings = read_settings(tmp_path / "campaign.toml")
    assert settings.campaign.classes == ("cat", "dog")
    assert settings.server.host == "127.0.0.1"
    assert settings.url == f"sqlite:///{tmp_path.absolute()}/campaign.db"
    with pytest.raises(SettingError, match="exists already"):
        write_template(tmp_path / "campaign.toml")


def test_the_template_shows_the_defaults(tmp_path: Path) -> None:
    keys = (
        "[",
        "# policy",
        "# per_item",
        "# least",
        "# explore",
        "# lease",
        "# seed",
        "# accuracy",
        "# prob",
        "# stop",
        "# method",
    )
    keys += ("# refit", "# host =", "# port", "# max_", "# rate", "# timeout")
    lines = [line.removeprefix("# ") for line in TEMPLATE.splitlines() if line.startswith(("classes", *keys))]
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "a.toml").write_text("\n".join(lines))
    (tmp_path / "a.toml").write_text(CAMPAIGN)
    assert replace(read_settings(tmp_path / "shown" / "a.toml"), folder=tmp_path) == read_settings(tmp_path / "a.toml")


def test_two_campaigns_of_one_folder_have_a_database_each(tmp_path: Path) -> None:
    for name in ("pets", "fruit"):
        (tmp_path / f"{name}.toml").write_text(CAMPAIGN)
        assert read_settings(tmp_path / f"{name}.toml").url == f"sqlite:///{tmp_path.absolute()}/{name}.db"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("classes = [", "is not TOML"),
        ("[server]\nport = 1\n", r"the section \[campaign\] is missing"),
        ("[campaign]\n", r"\[campaign\]: the key 'classes' is missing"),
        ('[campaign]\nclasses = ["cat"]\n', "two or more different names"),
        ('[campaign]\nclasses = ["cat", "cat"]\n', "two or more different names"),
        ('[campaign]\nclasses = "cat"\n', r'classes must be a list such as \["cat", "dog"\]'),
        ('[campaign]\nclasses = ["cat", "a\\u0000"]\n', "is no name"),
        (CAMPAIGN + "[sever]\n", r"no section \[sever\] \(did you mean server\?\)"),
        (CAMPAIGN + "[server]\nprot = 1\n", r"\[server\]: no key 'prot' \(did you mean port\?\)"),
        (CAMPAIGN + '[server]\nport = "80"\n', "port must be a whole number"),
        (CAMPAIGN + "[server]\nport = true\n", "port must be a whole number"),
        (CAMPAIGN + "[server]\nport = 99999\n", "port must be at least 0 and at most 65535"),
        (CAMPAIGN + "[target]\naccuracy = nan\n", "accuracy must be a number"),
        (CAMPAIGN + '[target]\nstop = "soon"\n', "stop must be one of certified, expected, never"),
        (
            CAMPAIGN + '[questions]\npolicy = "best"\n',
            r"\[questions\]: there is no policy 'best' \(policies are warm-information",
        ),
        (CAMPAIGN + '[questions]\npolicy = "dalc"\n', "reads features"),
        (CAMPAIGN + "[questions]\nleast = 3\nmost = 2\n", r"most \(2\) is below least \(3\)"),
        (CAMPAIGN + '[inference]\nmethod = "raykar"\n', r"\[inference\]"),
        (CAMPAIGN + '[[annotators]]\nname = "a"\n[[annotators]]\nname = "a"\n', "'a' is there twice"),
        (CAMPAIGN + "[[annotators]]\ncost = 1.0\n", r"\[\[annotators\]\] number 1: the key 'name' is missing"),
        ('annotators = "a"\n' + CAMPAIGN, "one by one"),
        ("campaign = 3\n", r"the section \[campaign\] is missing"),
        ("server = 3\n" + CAMPAIGN, r"\[server\] is a section with keys"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "campaign.toml"
    path.write_text(text)
    with pytest.raises(CrowdwiseError, match=words) as problem:
        read_settings(path)
    assert str(path) in str(problem.value)


def test_a_missing_file_says_how_to_write_one(tmp_path: Path) -> None:
    with pytest.raises(CrowdwiseError, match="crowdwise serve --new"):
        read_settings(tmp_path / "none.toml")


def test_a_database_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(CAMPAIGN + 'store = "postgresql+psycopg://u@h/d"\n')
    settings: Settings = read_settings(tmp_path / "c.toml")
    assert settings.url == "postgresql+psycopg://u@h/d"
