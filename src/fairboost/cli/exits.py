"""How a command ends: exit codes, and exceptions in one line each."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable

from fairboost._text import printable
from fairboost.cli import signals
from fairboost.cli.wording import in_commands
from fairboost.exceptions import FairboostError

DONE, FAILED, USAGE, NOT_MET, NOT_JUDGED, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 4, 130, 143

EXIT_CODES = {
    DONE: "done",
    FAILED: "failed: there is a problem with a file, a column, a value or the disk",
    USAGE: "not started: the command line is wrong",
    NOT_MET: "done, but a constraint is not met, a gap is larger than --max-gap allows, an alarm "
    "is active, or the decisions say nothing",
    NOT_JUDGED: "done, but the rows cannot be judged: `fairboost monitor` found no rows of a "
    "constraint, a group that vanished, or more rows of no known group than in training",
    INTERRUPTED: "interrupted by Ctrl-C; nothing half-written is left",
    TERMINATED: "ended by the system or a scheduler (SIGTERM); nothing half-written is left",
}
"""What the exit codes of all commands mean."""

SYSTEM = {
    errno.ENOSPC: "the disk is full; free some space, or name a folder on another disk",
    errno.EDQUOT: "the quota of the disk is used up; free some space, or name another disk",
    errno.EFBIG: "the file would become larger than the system allows",
    errno.EACCES: "permission denied; name a folder that you may write to",
    errno.EPERM: "not permitted; name a folder that you may write to",
    errno.EROFS: "the disk is read-only; name a folder on another one",
}


def run_guarded(work: Callable[[], int], *, debug: bool) -> int:
    """Do the work of a command; what goes wrong becomes one message and an exit code.

    Parameters
    ----------
    work : callable
        Returns the exit code.
    debug : bool
        Whether to show where it went wrong.
    """
    try:
        try:
            code = work()
            sys.stdout.flush()
            return code
        except Exception as error:
            if signals.came() is None:
                raise
            raise KeyboardInterrupt from error  # which something took for a fault of its own
    except KeyboardInterrupt:
        return _end("interrupted", signals.came() or INTERRUPTED, debug)
    except BrokenPipeError:  # the reader of our output has gone, as head does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (FairboostError, ImportError) as error:
        return _end(in_commands(str(error)), FAILED, debug)
    except OSError as error:
        return _end(_of_system(error), FAILED, debug)
    except MemoryError:
        message = "not enough memory; train on fewer rows, or on a larger machine"
        return _end(message, FAILED, debug)
    except Exception as error:  # a fault of ours, or of an engine: no traceback unless asked for
        said = " ".join(str(error).split())
        message = f"{type(error).__name__}: {said} (unexpected; --debug shows where)"
        return _end(message, FAILED, debug)


def _end(message: str, code: int, debug: bool) -> int:
    if debug:
        print(printable(traceback.format_exc(), keep="\n"), file=sys.stderr)
    print(f"fairboost: {printable(message)}", file=sys.stderr)
    return code


def _of_system(error: OSError) -> str:
    """What the system says, with a remedy where there is one."""
    said = SYSTEM.get(error.errno or 0) or error.strerror or str(error)
    return f"{error.filename}: {said}" if error.filename else said
