"""Gradient boosting engines behind one small port (:mod:`fairboost.engines.port`)."""
