"""`tablepack attack`: files, summary and exit codes, and no value of the data in messages."""

from __future__ import annotations

import html
import json
import stat

import pytest
from fixtures.evaluate import CANARY, World, shuffled
from fixtures.pipeline import tablepack

import engine
from engine.evaluation.attacks import ATTACKS, STRONG_ATTACKS


def attacks_in(found):
    """The attacks that a JSON document has a row of, in their order."""
    names = [row["measure"].partition(".")[0] for row in found["frame"]]
    return [n for n in dict.fromkeys(names) if n in (*ATTACKS, *STRONG_ATTACKS)]


pytest.importorskip("jinja2")


@pytest.fixture(scope="module")
def study(world):
    """Few people, so that runs are short."""
    path = world.folder / "attacks.study.toml"
    path.write_text('title = "Attacks"\n[attacks]\npeople = 200\nmost_groups = 4\n')
    return path


def run(world: World, study, *words: object, cwd=None, **more):
    given = {"--data": world.data, "--spec": study} | more
    options = [part for name, value in given.items() if value is not None for part in (name, value)]
    return tablepack("attack", *words, *options, cwd=cwd or world.folder)


@pytest.mark.ci
def test_a_release_is_attacked_and_the_report_cannot_be_published(world, study, tmp_path):
    out = tmp_path / "a.html"
    done = run(world, study, world.release, "-o", out, **{"--control": world.control})
    assert done.returncode == 0, done.stderr
    assert "Risk: " in done.stdout
    assert "Membership: " in done.stdout
    assert "Reconstruction: " in done.stdout
    assert "Utility" not in done.stdout
    assert "CONFIDENTIAL, mode 0600" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.html", "a.json"]
    assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {0o600}
    found = json.loads(out.with_suffix(".json").read_text("utf-8"))
    assert found["confidential"] is True
    assert attacks_in(found) == list(STRONG_ATTACKS)
    page = html.unescape(out.read_text("utf-8"))
    for row in found["frame"]:
        if row["measure"] in STRONG_ATTACKS and "not computed" not in row["note"]:
            assert row["note"].split(";")[0][:60] in page
    with pytest.raises(engine.PrivacyError, match="confidential"):
        engine.publish_pack(out, tmp_path / "pack")


@pytest.mark.ci
def test_json_of_two_tables_holds_no_value_of_the_data(world, study, tmp_path):
    data = world.original.assign(region=CANARY, age=lambda f: f["age"] + 31_415)
    data.to_csv(tmp_path / "d.csv", index=False)
    shuffled(data, 1, 333).to_csv(tmp_path / "s.csv", index=False)
    shuffled(data, 2, 333).to_parquet(tmp_path / "t.parquet")
    words = (tmp_path / "s.csv", tmp_path / "t.parquet", "-o", tmp_path / "p.html", "--json")
    done = run(world, study, *words, cwd=tmp_path, **{"--data": tmp_path / "d.csv"})
    assert done.returncode == 0, done.stderr
    assert done.stdout == (tmp_path / "p.json").read_text("utf-8")
    found = json.loads(done.stdout)
    assert [s["name"] for s in found["subjects"]] == ["s", "t"]
    assert {s["kind"] for s in found["subjects"]} == {"table"}
    for secret in (CANARY, "31415", "31,415"):
        assert secret not in done.stdout + done.stderr


@pytest.mark.slow
def test_without_a_study_the_quick_attacks_run_too(world, tmp_path):
    done = run(world, None, world.release, "--json", "-o", tmp_path / "a.html")
    found = json.loads(done.stdout)
    assert attacks_in(found) == [*ATTACKS, *STRONG_ATTACKS]
    assert any("chosen by rule" in row["note"] for row in found["frame"])


@pytest.mark.slow
def test_one_attacker_may_have_all_releases(world, study, tmp_path):
    words = (world.release, world.csv, "--together", "--json", "-o", tmp_path / "a.html")
    (subject,) = json.loads(run(world, study, *words).stdout)["subjects"]
    assert subject["name"] == "2 together"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"--data": "gone.csv"}, "gone.csv"),
        ({"--spec": "bad.toml"}, "attacks.peple"),
        ({"--spec": "group.toml"}, "attacks.groups.0.where"),
        ({"-o": "no/such/r.html"}, "folder does not exist"),
        ({"-o": "r.pdf"}, ".html"),
        ({"--control": "gone.csv"}, "gone.csv"),
    ],
)
def test_mistakes_end_with_2_and_leave_nothing(world, study, tmp_path, more, said):
    (tmp_path / "bad.toml").write_text('title = "t"\n[attacks]\npeple = 3\n')
    (tmp_path / "group.toml").write_text(
        'title = "t"\n[[attacks.groups]]\nwhere = {region = "Atlantis"}\n'
    )
    done = run(world, study, world.csv, cwd=tmp_path, **({"-o": "r.html"} | more))
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Atlantis" not in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.toml", "group.toml"]


def test_missing_arguments_are_usage_errors(world):
    assert tablepack("attack", "--data", world.data, cwd=world.folder).returncode == 2
    assert tablepack("attack", world.csv, cwd=world.folder).returncode == 2
    with pytest.raises(engine.SpecError, match="at least one release"):
        engine.attack(data=world.data)
