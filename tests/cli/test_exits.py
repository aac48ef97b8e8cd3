"""How commands end when something goes wrong that no command foresees."""

import errno

import pytest

from fairboost.cli.exits import run_guarded
from fairboost.exceptions import InvalidInputError


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (InvalidInputError("a bad file"), 1, "a bad file"),
        (ImportError("needs optuna"), 1, "needs optuna"),
        (MemoryError(), 1, "not enough memory"),
        (OSError(errno.ENOSPC, "No space", "m"), 1, "m: the disk is full; free some space"),
        (OSError(errno.EACCES, "Denied", "m"), 1, "m: permission denied; name a folder"),
        (OSError(errno.EIO, "Input/output error"), 1, "Input/output error"),
        (KeyError("x"), 1, "KeyError: 'x' (unexpected; --debug shows where)"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
@pytest.mark.parametrize("debug", [False, True])
def test_one_line_and_a_code(error, code, message, debug, capsys):
    def work():
        raise error

    assert run_guarded(work, debug=debug) == code
    shown = capsys.readouterr().err
    assert shown.splitlines()[-1].startswith(f"fairboost: {message}")
    assert ("Traceback" in shown) == debug
