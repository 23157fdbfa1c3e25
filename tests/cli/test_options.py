"""Options that commands take from functions and models."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
import typer
from pydantic import BaseModel, Field
from typer.testing import CliRunner

import engine
from engine.cli.app import COMMANDS, loaded
from engine.cli.options import help_of, taking
from engine.source.detection import SourceSettings

if TYPE_CHECKING:
    from nowhere import Frame


def answer(
    what: Frame | str | Path,
    *,
    out: str | Path = "a.html",
    n_rows: int = 3,
    columns: Sequence[str] | None = None,
    form: Literal["csv", "json"] = "csv",
    jobs: int = 2,
    progress: object = None,
    **more: int,
) -> None:
    """Answer.

    Parameters
    ----------
    what : Frame, str or Path
        Spec.

        Or a frame.
    out, n_rows
        A file.
    columns : sequence of str, optional
        Columns to show.
    form : str
        File
        format.
    jobs
        As in `build`.

    Returns
    -------
    None
    """


class Sizes(BaseModel):
    """Settings."""

    wait_s: float = Field(default=10.0, ge=0.5, le=20, description="Seconds to wait.")
    inner: int = 5


def run(declared, *words, **how):
    """Give a command the options and run it; its arguments, or what Typer printed."""
    app, seen = typer.Typer(), {}

    def command(given, force: bool = False) -> None:
        seen.update(given, force=force)

    app.command()(taking(declared, **how)(command))
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    return seen if not done.exit_code and seen else done.output


def test_types_and_defaults_are_those_of_the_function():
    rest = {"n_rows": 3, "columns": None, "form": "csv", "jobs": 2, "force": False}
    assert run(answer, "s.toml") == {"what": Path("s.toml"), "out": Path("a.html")} | rest
    words = (
        "s.toml",
        "-o",
        "b",
        "--n-rows",
        4,
        "--columns",
        'a,"b, c"',
        "--form",
        "json",
        "--force",
    )
    given = run(answer, *words)
    assert given["out"] == Path("b")
    assert (given["n_rows"], given["columns"], given["form"]) == (4, ["a", "b, c"], "json")
    assert given["force"] is True
    assert run(answer, "s.toml", jobs=7)["jobs"] == 7
    assert "--jobs" not in run(answer, "--help", leave=("jobs",))
    for wrong in (("--n-rows", "x"), ("--jobs", 0), ("--form", "xml"), ("--more", 1)):
        assert "s.toml" not in run(answer, "s.toml", *wrong)


def test_the_help_is_the_first_paragraph_of_the_docstring():
    assert help_of(answer, "what") == "Spec."
    assert help_of(answer, "n_rows") == help_of(answer, "out") == "A file."
    assert help_of(answer, "form") == "File format."
    assert help_of(answer, "jobs") == help_of(engine.build, "jobs") != ""
    with pytest.raises(KeyError, match="answer does not describe more"):
        help_of(answer, "more")


def test_described_fields_of_a_model_are_options_with_their_bounds():
    assert run(Sizes) == {"wait_s": 10.0, "force": False}
    assert run(Sizes, "--wait", 0.5)["wait_s"] == 0.5
    for wrong in (("--wait", 0.4), ("--wait", 21), ("--inner", 1)):
        assert "wait_s" not in run(Sizes, *wrong)


def test_every_option_of_every_command_is_described():
    for name in COMMANDS:
        for command in getattr(loaded(name), "commands", {name: loaded(name)}).values():
            for option in command.params:
                assert option.help, f"{name}: {option.name}"
                assert "As in" not in option.help, f"{name}: {option.name}"


@pytest.mark.parametrize(
    "name", ["build", "draft", "estimate", "measure_release", "plan", "synthesize"]
)
def test_settings_of_a_source_are_shown_where_they_are_taken(name):
    function = getattr(engine, name)
    described = re.findall(r"^(\w[\w, ]*?)(?: :|$)", inspect.getdoc(function), re.MULTILINE)
    names = [one for words in described for one in words.split(", ")]
    for setting in SourceSettings.__annotations__:
        assert names.count(setting) == 1, setting
        assert setting in inspect.signature(function).parameters


def test_a_name_that_is_no_setting_and_a_setting_beside_a_spec_are_refused(tmp_path):
    with pytest.raises(TypeError, match=r"'entites' is no parameter of a source.*entities"):
        engine.plan([], tables=1, key="k", entites=[])
    for name in ("title", "vintage", "max_rows"):
        with pytest.raises(engine.SpecError, match=f"{name}: set by the spec"):
            engine.build(tmp_path / "no.toml", **{name: "2"})
