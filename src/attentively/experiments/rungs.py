"""The models that the experiment ladder compares."""

RUNGS = ("fixed", "additive", "dot", "general", "concat", "transformer")
