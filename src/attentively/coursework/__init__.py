"""Coursework: a student's progress, earlier parts, and submissions."""

from attentively import exporter

__getattr__ = exporter(
    __name__,
    {
        "progress": ["PartResult", "find", "locate", "report", "run"],
        "submission": ["Receipt", "submit"],
    },
)
