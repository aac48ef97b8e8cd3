"""Fitted models in the file formats of others, with the decision in or beside the file."""
