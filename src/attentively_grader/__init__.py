"""Release and grade nbgrader assignments. Knows nothing of what they teach.

nbgrader stays the format, the gradebook and the feedback; its own commands work on the same
folders. ``python -m attentively_grader`` grades.
"""
