"""Scoring: metrics, bootstrap intervals, and the evaluation of a model on a split."""
