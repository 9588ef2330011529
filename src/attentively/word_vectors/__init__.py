"""Word vectors: skip-gram, its training, and what trained vectors are used for."""

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
