"""Analysis: explanations, pruning, interventions, plots of attention weights, tables of results."""
