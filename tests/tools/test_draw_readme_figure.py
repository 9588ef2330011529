"""The figure of README.md."""

import importlib.util
import xml.etree.ElementTree as ET

from notebook_tools import ROOT

spec = importlib.util.spec_from_file_location("draw", ROOT / "tools/draw_readme_figure.py")
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)


def test_the_figure_can_be_drawn_again(tmp_path):
    """It is as large as the committed one: a square per pair of tokens."""
    target = tmp_path / "drawn" / "attention.svg"
    assert tool.main(["--target", str(target)]) == 0
    drawn, committed = (ET.parse(path).getroot() for path in (target, tool.TARGET))
    assert drawn.attrib["viewBox"] == committed.attrib["viewBox"]
    assert not any(line != line.rstrip() for line in target.read_text().splitlines())
