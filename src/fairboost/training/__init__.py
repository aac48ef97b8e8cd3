"""From checked data to a trained model."""
