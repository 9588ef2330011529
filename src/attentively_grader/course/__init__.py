"""A course on disk: its folders, notebooks, releases, and the preparation of an assignment."""
