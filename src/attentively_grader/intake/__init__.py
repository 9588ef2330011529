"""Intake: read submissions, merge their answers with the tests, and plan what to run."""
