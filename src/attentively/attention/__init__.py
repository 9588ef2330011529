"""Attention: masks, scores, weights and contexts, positions, and several heads."""
