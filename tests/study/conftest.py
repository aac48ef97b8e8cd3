"""A small study, as a file that tests change."""

from __future__ import annotations

import pytest

CONFIG = """\
name = "small"

[data]
generator = "loans"
rows = 1500

[metrics]
rate = "fnr"
tolerance = 0.02

[search]
trials = 3
features = ["aware"]

[engine]
n_estimators = { low = 5, high = 15, log = true }
num_leaves = { low = 4, high = 8 }

[methods.plain]

[protocol]
models = 2
replicates = 50
"""


@pytest.fixture
def write(tmp_path):
    """Write the configuration with some text put in place of other text."""

    def write(*changes, name="study.toml", text=CONFIG):
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new)
        path = tmp_path / name
        path.write_text(text)
        return path

    return write
