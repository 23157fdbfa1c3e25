"""Memory that is free: of the system, and of a container's control groups of both versions."""

from __future__ import annotations

import pytest

from engine.evaluation import memory
from engine.evaluation.memory import free_memory

MEMINFO = "MemTotal: 9000000 kB\nMemAvailable:    2000000 kB\nSwapFree: 0 kB\n"
UNLIMITED = "9223372036854771712\n"


@pytest.fixture
def system(monkeypatch, tmp_path):
    for name, file in (("_SYSTEM", "meminfo"), ("_OWN", "own"), ("_GROUPS", "groups")):
        monkeypatch.setattr(memory, name, tmp_path / file)
    (tmp_path / "meminfo").write_text(MEMINFO)
    return tmp_path


def group(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_", ".", 1)).write_text(text)


def test_of_the_system(system):
    assert free_memory() == 2_000_000 << 10
    (system / "meminfo").write_text("MemTotal: 9000000 kB\n")
    assert free_memory() is None
    (system / "meminfo").unlink()
    assert free_memory() is None


def test_of_a_group_less_what_it_has_but_for_files_in_memory(system):
    (system / "own").write_text("0::/\n")
    group(system / "groups", memory_max="1000000\n", memory_current="400000\n")
    assert free_memory() == 600_000
    group(system / "groups", memory_stat="anon 5\ninactive_file 100000\nactive_file 7\n")
    assert free_memory() == 700_000
    group(system / "groups", memory_current="5000000\n")
    assert free_memory() == 0
    group(system / "groups", memory_max="max\n")
    assert free_memory() == 2_000_000 << 10


@pytest.mark.parametrize("root", ["groups", "groups/unified"])
def test_the_narrowest_of_nested_groups_counts(system, root):
    (system / "own").write_text("3:cpu:/x\n0::/a/b\n")
    group(system / root / "a/b", memory_max="max\n", memory_current="1\n")
    group(system / root / "a", memory_max="50000\n", memory_current="1\n")
    assert free_memory() == 49_999
    group(system / root / "a/b", memory_max="300\n")
    assert free_memory() == 299


def test_of_groups_of_the_old_kind(system):
    (system / "own").write_text("9:name=systemd:/\n4:memory,hugetlb:/docker/4f\n1:cpu:/\n")
    place = system / "groups/memory"
    old = {"memory_limit_in_bytes": UNLIMITED, "memory_usage_in_bytes": "10\n"}
    group(place / "docker/4f", **old)
    assert free_memory() == 2_000_000 << 10
    # Inside a container its own group is the root, whatever it is called outside.
    group(place, memory_limit_in_bytes="800\n", memory_usage_in_bytes="500\n")
    group(place, memory_stat="cache 400\ntotal_inactive_file 100\n")
    assert free_memory() == 400


def test_what_cannot_be_read_says_nothing(system):
    (system / "own").write_bytes(b"0::/\xff\n")
    assert free_memory() == 2_000_000 << 10
    (system / "own").write_text("nonsense\n0::/\n")
    group(system / "groups", memory_max="many\n", memory_current="1\n")
    assert free_memory() == 2_000_000 << 10
