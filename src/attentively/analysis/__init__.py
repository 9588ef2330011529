"""Analysis: explanations, pruning, interventions, and plots of attention weights."""
