"""Cases of which one ends its process, to test those who watch over them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


def run(seed: int, number: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """End the process at the second case."""
    tell("ending")
    if number == 1:
        os.abort()
    return {"outcome": "fitted", "checked": {}, "failures": []}
