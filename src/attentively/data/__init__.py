"""Data: corpora, downloads, splits, and batches."""
