"""Compare methods over random options on the same splits, by the paper's protocol.

``fairboost study CONFIG.toml`` on the command line, :func:`run_study` in Python. A method of one's
own is a function from a :class:`Task` to a fitted classifier. ``docs/study.md`` is the guide.
"""

from __future__ import annotations

try:
    import optuna as _optuna  # noqa: F401
except ImportError as error:
    raise ImportError('studies need optuna: pip install "fairboost[study]"') from error

from fairboost.study.config import StudyConfig
from fairboost.study.data import Rows
from fairboost.study.measures import Predictions
from fairboost.study.methods import METHODS
from fairboost.study.study import StudyRun, read_study, run_study
from fairboost.study.task import Method, Task

__all__ = [
    "METHODS",
    "Method",
    "Predictions",
    "Rows",
    "StudyConfig",
    "StudyRun",
    "Task",
    "read_study",
    "run_study",
]
