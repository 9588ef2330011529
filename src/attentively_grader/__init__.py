"""Release and grade nbgrader assignments, whatever their topic.

Format, gradebook and feedback are those of nbgrader, and its own commands work on the same folders.
``python -m attentively_grader`` grades.
"""
