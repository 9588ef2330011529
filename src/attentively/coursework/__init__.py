"""Coursework: a student's progress, earlier parts, and submissions."""

import attentively_grader  # noqa: F401  first: it makes the import of nbformat a second shorter
from attentively import exporter

__getattr__ = exporter(
    __name__,
    {
        "github_actions": ["report_to_github"],
        "part_result": ["PartResult"],
        "progress_cache": ["environment"],
        "progress": ["course_total", "read", "report", "results", "run"],
        "submission": ["Receipt", "is_blank", "submit"],
        "work_folder": ["find", "locate"],
    },
)
