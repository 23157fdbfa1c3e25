"""`add` that is killed: the old release or the new one serves, and saying it again ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fixtures.pipeline import ACCEPTED, CENSUS, ROOT, make_census, write_spec

import engine
from engine.api.reading import read
from engine.release import build, building, sticky
from engine.spec import ReleaseSpec, amended
from engine.store import earlier_release, manifest_path

SMALL = (("age",), ("sex",), ("region",), ("age", "sex"))
POINTS = (
    "after the charge",
    "the release is noted",
    "the release is in place",
)
CODE = "import sys; from test_killed_adding import add_until; add_until(*sys.argv[1:])"
IMPORTED = [str(ROOT / "tests"), str(ROOT / "tests" / "release")]
pytestmark = pytest.mark.slow


class Stage:
    """A release, what it is to become, and what stands beside its key."""

    def __init__(self, folder: Path) -> None:
        self.folder = make_census(folder, people=1_000)
        text = write_spec(folder, folder / "people.parquet", CENSUS, SMALL, privacy=ACCEPTED)
        self.small, self.path = read(text), folder / "r.duckdb"
        self.large = grown(self.small)
        # First: what it tells counts for all that come later.
        build(self.large, folder / "w.duckdb", jobs=1)
        self.whole = told_by(build(self.large, folder / "w.duckdb", force=True, jobs=1))
        self.old = told_by(build(self.small, self.path, jobs=1))
        self.kept = {path: path.read_bytes() for path in (self.path, manifest_path(self.path))}

    def begin_again(self) -> None:
        """All is as it was before the first kill, but for the ledger: what is charged is charged."""
        for path, data in self.kept.items():
            path.write_bytes(data)


def grown(small: ReleaseSpec) -> ReleaseSpec:
    """What the release is to become."""
    return amended(small, more=[["region", "sex"]])


def add(spec: ReleaseSpec, path: Path) -> Path:
    """Add what the spec has more than the release."""
    return build(spec, path, force=True, earlier=earlier_release(path), jobs=1)


def add_until(folder: str, point: str) -> None:
    """Run in a process of its own: add, and end at a point."""
    small = read(Path(folder) / "release.toml")
    stopping(point)
    add(grown(small), Path(folder) / "r.duckdb")


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    return Stage(tmp_path_factory.mktemp("adding"))


def told_by(path: Path) -> tuple[str, str]:
    """Content hash of a release, and the exposure that it states."""
    with engine.open(path) as release:
        return release.content_hash, repr(release.card("age").exposure)


def ended() -> None:
    """End as if killed, and the fit process, too: nothing is closed or written any more."""
    for line in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(line.read_text().rpartition(") ")[2].split()[1])
        except OSError:
            continue
        if parent == os.getpid():
            os.kill(int(line.parent.name), signal.SIGKILL)
            os.waitpid(int(line.parent.name), 0)
    os._exit(9)


def stopping(point: str) -> None:
    """Make this process end at a point of a build."""

    def after(call):
        def run(*args, **kwargs):
            call(*args, **kwargs)
            ended()

        return run

    where, name, how = {
        "after the charge": (sticky, "charged", after),
        "the release is noted": (building, "note_release", after),
        "the release is in place": (building, "place", after),
    }[point]
    setattr(where, name, how(getattr(where, name)))


@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="needs /proc to find child processes"
)
@pytest.mark.parametrize("point", POINTS)
def test_add_is_killed(ready, point):
    is_new = point == POINTS[-1]
    ready.begin_again()
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(ready.folder), point],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *IMPORTED])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 9, done.stderr
    assert told_by(ready.path) == (ready.whole if is_new else ready.old)
    # Also what was just put in place: the journal had it before.
    add(ready.large, ready.path)
    assert told_by(ready.path) == ready.whole
    assert not ready.path.with_name("r.duckdb.tmp").exists()
