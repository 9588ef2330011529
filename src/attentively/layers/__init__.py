"""Layers: embeddings, normalisation, recurrent cells, and the layers of a Transformer."""

from attentively import exporter

__getattr__ = exporter(
    __name__,
    {
        "transformer_layers": ["DecoderCache", "DecoderLayer", "EncoderLayer", "Norm", "Residual"],
    },
)
