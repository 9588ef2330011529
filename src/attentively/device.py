"""Which device to compute on: the best at hand, unless the environment says otherwise."""

import os

import torch

VARIABLE = "ATTENTIVELY_DEVICE"


def best() -> torch.device:
    """Return CUDA where there is a GPU, else Apple's MPS, else the CPU.

    The environment variable ``ATTENTIVELY_DEVICE`` (``cpu``, ``cuda``, ``cuda:1``, ``mps``)
    overrides. Raises `ValueError` for a device that is unknown or not there.
    """
    wanted = os.environ.get(VARIABLE, "").strip()
    if wanted:
        return _checked(wanted)
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def describe(device: torch.device) -> str:
    """Return the device's name for a log or a page, such as ``cpu (2 threads)``."""
    if device.type == "cuda":
        return f"cuda ({torch.cuda.get_device_name(device)})"
    if device.type == "cpu":
        threads = torch.get_num_threads()
        return f"cpu ({threads} thread{'' if threads == 1 else 's'})"
    return device.type


def _checked(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"{VARIABLE}={name!r} is no device: try cpu, cuda or mps") from None
    present = {
        "cpu": True,
        "cuda": torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count(),
        "mps": torch.backends.mps.is_available(),
    }
    if not present.get(device.type, False):
        raise ValueError(f"{VARIABLE}={name!r}, but this machine offers no such device")
    return device
