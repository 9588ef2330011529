"""Models: sequence to sequence, Transformers, language models, and their checkpoints."""
