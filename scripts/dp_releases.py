"""Releases of mode dp, built as anybody builds them and evaluated as anybody evaluates them."""

from __future__ import annotations

import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from dp_loops import data_in
from measured import markdown
from score_releases import null_spellings

from engine.api.reading import read
from engine.evaluation.data.aligned import align, generator
from engine.evaluation.data.reading import read_original, read_release, released_columns
from engine.evaluation.measures.combinations import k_marginals
from engine.evaluation.study.model import read_study
from engine.key_files import new_key
from engine.release import build
from engine.spec import ReleaseSpec

RELEASES = Path("releases")
EPSILONS = (1.0, 10.0)
SEED = 2021
PEERS = (("mwem-pgm", "", "847"), ("AIM", "10", "710"))
"""3-marginals that NIST's archive of deidentified data reports."""


def placed(name: str, folder: Path, place: Path) -> ReleaseSpec:
    """A spec of `releases`, its data linked and its key made in a folder of our own.

    Parameters
    ----------
    name : str
        File name of the spec.
    folder : Path
        Holds the data.
    place : Path
    """
    text = (RELEASES / name).read_text("utf-8")
    (place / name).write_text(text, "utf-8")
    lines = [
        line.split('"')[1] for line in text.splitlines() if line.startswith(("key =", "path ="))
    ]
    key, source = (place / line for line in lines[:2])
    source.parent.parent.mkdir(parents=True, exist_ok=True)
    if not source.parent.exists():
        source.parent.symlink_to(folder.resolve())
    key.parent.mkdir(parents=True, exist_ok=True)
    if not key.exists():
        new_key(key)
    return read(place / name)


def with_epsilon(spec: ReleaseSpec, epsilon: float | None, key: Path) -> ReleaseSpec:
    """The same spec with another budget and a fresh key, whose ledger has nothing spent."""
    new_key(key)
    return replace(spec, key_path=key, dp=replace(spec.dp, epsilon=epsilon, budget=None))


def nist24(folder: Path, repeats: int) -> str:
    """Build releases/nist-dp.toml at two epsilons; time, memory and 3-marginals beside peers."""
    data_in(folder, "national2019.csv")
    study = read_study(RELEASES / "nist-acs.study.toml", beside=[folder])
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        spec = placed("nist-dp.toml", folder, place)
        reading = study.model_copy(update={"nulls": null_spellings(spec)})
        for epsilon in EPSILONS:
            for repeat in range(repeats):
                release = place / f"{epsilon:g}-{repeat}.duckdb"
                one = with_epsilon(spec, epsilon, release.with_suffix(".key"))
                start = time.perf_counter()
                build(one, release)
                seconds = time.perf_counter() - start
                original = read_original(spec.source.path, reading, like=released_columns(release))
                aligned = align(original, read_release(release).tables, study)
                score = k_marginals(aligned, study.marginals, generator(SEED, "marginals"))
                rows.append(
                    [
                        "here",
                        f"{epsilon:g}",
                        f"{score.values['score']:.0f}",
                        f"{seconds:.0f}",
                        gigabytes(),
                    ]
                )
    rows += [[name, epsilon, told, "", ""] for name, epsilon, told in PEERS]
    return markdown(["method", "epsilon", "3-marginals", "seconds", "GB at most so far"], rows)


def gigabytes() -> str:
    """Largest memory of us and of any child so far."""
    most = max(
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return f"{most / (1 << 20):.1f}"
