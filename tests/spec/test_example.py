"""The example spec is valid and shows every key; adding and removing entries changes nothing else in a spec."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from fixtures.pipeline import tablepack

from engine.errors import SpecError
from engine.spec import example_spec, model, with_entries, without_entries
from engine.spec.reading import spec_from

EXAMPLE = example_spec()
SECTIONS = model.SECTIONS


def keys_of(text: str, name: str) -> set[str]:
    """Keys in the sections of one name, including those in comments."""
    parts = re.split(r"^(?:# )?\[+([a-z]+)[^\]\n]*\]+$", text, flags=re.MULTILINE)
    bodies = [body for head, body in zip(parts[1::2], parts[2::2], strict=True) if head == name]
    return set(re.findall(r"^(?:# )?([a-z_]+) = ", "\n".join(bodies), flags=re.MULTILINE))


@pytest.mark.parametrize("name", SECTIONS)
def test_every_key_is_there_and_no_other(name):
    assert keys_of(EXAMPLE, name) == set(SECTIONS[name].model_fields)


@pytest.mark.parametrize("name", model.NESTED)
def test_every_key_of_nested_sections_is_there(name):
    written = " ".join(re.findall(rf"^(?:# )?{name} = (\{{.*)$", EXAMPLE, flags=re.MULTILINE))
    assert set(re.findall(r"([a-z_]+) = ", written)) == set(model.NESTED[name].model_fields)


def test_it_is_valid():
    spec = spec_from(tomllib.loads(EXAMPLE), folder=Path(), check_key=False)
    assert ("age", "sex") in spec.tables
    assert len(spec.tables) == 3
    shown = {name: field.default for name, field in model.PrivacySection.model_fields.items()}
    assert spec.privacy.low_threshold == 3
    assert shown["profile"] == spec.privacy.profile


def test_what_is_commented_out_is_valid_too():
    """The section [dp], and each key in comments, has a value that the model accepts."""
    for name, section in SECTIONS.items():
        for key, value in re.findall(r"^# ([a-z_]+) = (.*?)(?: {2,}#.*)?$", EXAMPLE, re.MULTILINE):
            if key in section.model_fields and key in keys_of(EXAMPLE, name):
                held = tomllib.loads(f"{key} = {value}")
                problems: list[str] = []
                model.checked(section, held, name, problems)
                assert [p for p in problems if "is missing" not in p] == [], (name, key)


@pytest.mark.ci
def test_init_plan_and_build_take_tables_and_width(tmp_path):
    (tmp_path / "p.csv").write_text(
        "id,age,sex,town\n" + "".join(f"{i},{i % 50},{'fm'[i % 2]},T{i % 3}\n" for i in range(400))
    )
    words = ("init", "p.csv", "--entity", "id", "--force")
    done = tablepack(*words, "--tables", "age,sex", "--tables", "town", "--width", 2, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    tables = tomllib.loads((tmp_path / "release.toml").read_text())["tables"]
    assert tables == [{"columns": ["age", "sex"]}, {"columns": ["town"]}, {"all": 2}]
    for given in (("--tables", "age,sxe"), ("--tables", "id,age"), ("--width", 4)):
        assert tablepack(*words, *given, cwd=tmp_path).returncode == 2
    assert len(tomllib.loads((tmp_path / "release.toml").read_text())["tables"]) == 3
    tablepack("key", "new", "release.key", cwd=tmp_path)
    planned = tablepack("plan", "release.toml", "--tables", "sex", "--json", cwd=tmp_path)
    assert planned.returncode == 0, planned.stderr
    published = [t["columns"] for t in json.loads(planned.stdout)["tables"] if t["published"]]
    assert published == [["sex"]]
    wrong = tablepack("build", "release.toml", "--tables", "twon", "-o", "x.duckdb", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "did you mean 'town'?" in wrong.stderr


@pytest.mark.parametrize("text", ['tables = [{columns = ["a"]}]\n', "[[tables]\n"])
def test_a_spec_that_lists_its_tables_in_another_form(text):
    with pytest.raises(SpecError):
        with_entries(text, [("b",)])


TEXT = """[release]
vintage = "1"

# Singles.
[[tables]]
columns = ["a"]   # [not a section]

[[ tables ]]
# inside
columns = [
  "c",
  "b",
]

# Of the next one.
[[tables]]
all = 2
[columns.a]
kind = "integer"
"""


def test_an_entry_goes_with_its_lines_only():
    short = without_entries(TEXT, [("b", "c")])
    assert short == TEXT.replace('[[ tables ]]\n# inside\ncolumns = [\n  "c",\n  "b",\n]\n\n', "")
    assert without_entries(short, [("a",)]).count("[[") == 1


@pytest.mark.parametrize(
    "text",
    [
        'tables = [{columns = ["a"]}]\n',
        "[[tables]]\nall = 1\n",
        'x = """\n[[tables]]\n"""\n[[tables]]\ncolumns = ["a"]\n',
    ],
)
def test_entries_that_cannot_be_removed_safely_are_refused(text):
    with pytest.raises(SpecError):
        without_entries(text, [("a",)])
