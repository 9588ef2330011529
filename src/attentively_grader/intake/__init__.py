"""Intake: read submissions, merge their answers, and list what has to be run."""
