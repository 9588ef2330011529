"""Release and grade nbgrader assignments, whatever their topic.

Format, gradebook and feedback are those of nbgrader, and its own commands work on the same folders.
``python -m attentively_grader`` grades.
"""

import sys

# Without this package, jsonschema, which nbformat imports, has no check of the format "iri", which
# no schema of notebooks uses. With it, jsonschema builds a parser for more than a second.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
