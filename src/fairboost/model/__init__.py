"""``FairGBMClassifier``, and its files."""
