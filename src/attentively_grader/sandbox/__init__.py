"""The sandbox: isolated processes with limits on memory, time, processes and system calls."""
