"""Word vectors: skip-gram, its training, and applications of trained vectors."""

from attentively import exporter

__getattr__ = exporter(
    __name__,
    {
        "vectors": [
            "Analogy",
            "AnalogyScore",
            "Neighbour",
            "SimilarityScore",
            "WordVectors",
            "load_pretrained_vectors",
            "pretrained_vector_names",
            "spearman",
        ],
    },
)
