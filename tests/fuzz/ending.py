"""Cases of which some end their process or hang, to test those who watch over them."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any


def run(seed: int, number: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """End the process at the second case."""
    tell("ending")
    if number == 1:
        os.abort()
    return {"outcome": "fitted", "checked": {}, "failures": []}


if __name__ == "__main__":
    for k in range(*map(int, sys.argv[2:])):
        if k == 1:
            time.sleep(600)
        if k == 2:
            os.abort()
        print(json.dumps([("fine", str(k))]), flush=True)
