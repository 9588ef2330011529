"""Workers that run many examinations at once, on this machine or on a Dask cluster."""
