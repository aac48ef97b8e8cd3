"""Scripts that make the figures of the documentation."""
