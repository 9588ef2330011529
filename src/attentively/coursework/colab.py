"""Hand in an exercise from Google Colab, where the notebook is not a file of the computer."""

import json
from pathlib import Path
from typing import Any

import nbformat

from attentively.coursework import submission

BY_HAND = (
    "Choose File > Download > Download .ipynb in the menu, and hand in the downloaded notebook"
)


def hand_in(assignment: str, student: str, folder: Path | str = ".") -> Path:
    """Pack the open notebook, download the file to hand in, and return its path.

    The archive contains the folders that ``attentively submit`` writes. Raises `ValueError` if the
    student's name is not valid or the notebook is not an assignment, and `RuntimeError` outside
    Colab or if Colab does not give the notebook.
    """
    folder = Path(folder)
    path = folder / "work" / assignment / f"{assignment}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nbformat.from_dict(_open_notebook()), path)
    receipt = submission.submit(
        folder / "work", assignment, student, folder / "submitted", archive=True
    )
    packed = receipt.archive
    assert packed is not None
    print(f"Packed {packed.name} at {receipt.timestamp}")
    if receipt.unwritten:
        print(f"Parts that are not implemented yet: {receipt.unwritten} of {receipt.parts}")
    from google.colab import files

    files.download(str(packed))
    return packed


def _open_notebook() -> Any:
    """Return the content of the notebook in the browser."""
    try:
        from google.colab import _message
    except ModuleNotFoundError:
        raise RuntimeError(
            "this is not Google Colab. Run `attentively submit` in a terminal instead"
        ) from None
    answer = _message.blocking_request("get_ipynb", timeout_sec=60)
    if not answer or "ipynb" not in answer:
        raise RuntimeError(f"Colab did not give the notebook. {BY_HAND}")
    return json.loads(json.dumps(answer["ipynb"]))
