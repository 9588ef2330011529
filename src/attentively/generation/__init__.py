"""Generation: search for the best output of a model, and predictions of encoder heads."""
