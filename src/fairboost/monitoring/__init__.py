"""Rates and gaps after deployment, with intervals that hold at all looks at once.

On the command line: ``fairboost monitor``; ``docs/monitoring.md`` says how to read what it finds.

>>> from fairboost.monitoring import confidence_sequence
>>> low, high = confidence_sequence(events=[12, 31, 48], total=[100, 200, 300])
"""

from fairboost.monitoring.sequences import confidence_sequence

__all__ = ["confidence_sequence"]
