"""Choose the device: the best one available, unless an environment variable overrides it."""

import contextlib
import os
import re
import time
from pathlib import Path

import torch

VARIABLE = "ATTENTIVELY_DEVICE"
COARSE = 1e-3
"""A clock with this resolution in seconds, or a larger one, is not used for CPU time."""
_RESET, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def best() -> torch.device:
    """Return CUDA if there is a GPU, else Apple's MPS, else the CPU.

    The environment variable ``ATTENTIVELY_DEVICE`` (``cpu``, ``cuda``, ``cuda:1``, ``mps``, or
    another kind of device that PyTorch knows) overrides this choice. Raises `ValueError` for an
    unknown or unavailable device.
    """
    wanted = os.environ.get(VARIABLE, "").strip()
    if wanted:
        return _checked(wanted, VARIABLE)
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def find(wanted: torch.device | str | None = None) -> torch.device:
    """Return the device that is `wanted`, by default `best`; raises `ValueError` as `best` does."""
    return best() if wanted is None else _checked(str(wanted), "device")


def describe(device: torch.device) -> str:
    """Return the name of the device for a log or a page, such as ``cpu (2 threads)``."""
    if device.type == "cuda":
        return f"cuda ({torch.cuda.get_device_name(device)})"
    if device.type == "cpu":
        threads = torch.get_num_threads()
        return f"cpu ({threads} thread{'' if threads == 1 else 's'})"
    return device.type


def has_bfloat16(device: torch.device) -> bool:
    """Return whether the device computes in 16-bit brain floating point."""
    return device.type != "cuda" or torch.cuda.is_bf16_supported()


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether `error` reports that the memory of a device or of the machine is full."""
    # The CPU and MPS raise a plain RuntimeError; only its text identifies it.
    return isinstance(error, torch.OutOfMemoryError) or any(
        words in str(error) for words in ("can't allocate memory", "out of memory")
    )


def reset_peak_memory(device: torch.device) -> None:
    """Restart the measurement of `peak_memory_mib`, where the system supports it."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    elif _RESET.exists():
        with contextlib.suppress(OSError):  # a system may forbid it: then nothing is reset
            _RESET.write_text("5")


def peak_memory_mib(device: torch.device) -> int | None:
    """Return the peak memory since `reset_peak_memory` in MiB; None where it is not measured.

    On a GPU this is the memory that PyTorch allocated; on the CPU it is the memory of the whole
    process, measured on Linux only.
    """
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 2**20)
    if device.type == "cpu" and _STATUS.exists():
        found = re.search(r"VmHWM:\s+(\d+) kB", _STATUS.read_text(encoding="ascii"))
        return None if found is None else round(int(found[1]) / 2**10)
    return None


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished; an accelerator works while the program continues."""
    if device.type != "cpu":
        torch.get_device_module(device).synchronize()


def seconds(device: torch.device) -> float:
    """Return the reading of a clock, in seconds; the difference of two readings is a duration.

    On the CPU the clock counts the CPU time of this process, so other programs do not affect it. On
    an accelerator it counts elapsed time, and is read after the device has finished its work.
    Where the clock of CPU time is coarse (Windows: 16 ms), elapsed time counts on the CPU too.
    """
    if device.type == "cpu" and time.get_clock_info("process_time").resolution < COARSE:
        return time.process_time()
    synchronize(device)
    return time.perf_counter()


def random_state(device: torch.device) -> dict[str, torch.Tensor]:
    """Return the state of the device's random number generator by its type; none for the CPU."""
    if device.type == "cuda":
        return {"cuda": torch.cuda.get_rng_state(device)}
    if device.type == "mps":
        return {"mps": torch.mps.get_rng_state()}
    return {}


def set_random_state(device: torch.device, state: torch.Tensor) -> None:
    """Restore a state that `random_state` returned."""
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    elif device.type == "mps":
        torch.mps.set_rng_state(state)


def _checked(name: str, setting: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"{setting}={name!r} is not a device: try cpu, cuda or mps") from None
    if not _is_present(device):
        raise ValueError(f"{setting}={name!r}, but this machine has no such device")
    return device


def _is_present(device: torch.device) -> bool:
    """Return whether the machine has a device of this type and index."""
    if device.type == "cpu":
        return True
    if device.type == "mps":
        return torch.backends.mps.is_available()
    try:
        kind = torch.get_device_module(device)
    except RuntimeError:  # a kind without a module of its own, such as meta
        return False
    return bool(kind.is_available()) and (device.index or 0) < kind.device_count()
