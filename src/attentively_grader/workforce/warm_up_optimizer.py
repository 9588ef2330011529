"""Warm up a zygote for notebooks that train: on import, create an optimizer of PyTorch once.

The first optimizer of a process imports `torch._dynamo`, which takes longer than most notebooks.
"""

import contextlib

with contextlib.suppress(Exception):  # a notebook will show the error
    import torch

    torch.optim.SGD([torch.nn.Parameter(torch.ones(1))])
