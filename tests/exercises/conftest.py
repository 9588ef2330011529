"""The banks of answers lie beside the tests that import them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
