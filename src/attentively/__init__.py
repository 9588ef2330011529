"""Attentively: from word embeddings to the Transformer, built by hand.

One idea per module, each named by its idea; the book reads them aloud.
"""

__version__ = "0.1.0"
