"""``python -m fairboost.cli``."""

import sys

from fairboost.cli import main

if __name__ == "__main__":
    sys.exit(main())
