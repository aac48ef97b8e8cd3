"""The same on the workers of a Dask cluster."""
