from __future__ import annotations

import os

import pytest


@pytest.fixture
def write(tmp_path):
    key = tmp_path / "my.key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)

    def written(text):
        (tmp_path / "release.toml").write_text(text)
        return tmp_path / "release.toml"

    return written
