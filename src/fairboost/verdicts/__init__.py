"""What to tell the user: verdicts, the fairness report, warnings."""
