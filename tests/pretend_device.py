"""A second device for tests: it computes on the CPU, and refuses what a GPU refuses.

`install` registers the device ``pretend`` with PyTorch. Its tensors hold a CPU tensor, on which
each operation runs. An operation on tensors of both devices raises, as CUDA's does, and so does
`numpy`. As with CUDA, a 0-dimensional CPU tensor may stand next to tensors of the device in
elementwise operations, and a CPU tensor may index one of the device. Random numbers come from a
generator of the device's own, so that the same seed gives other values than on the CPU. Products of
matrices and softmaxes have another last bit, so that exact comparisons of the two devices fail.
There are no 64-bit floats, as on Apple's GPUs.

What it lacks: operations that change the shape of a tensor in place, `torch.inference_mode` (which
is `torch.no_grad` here), `torch.compile`, streams, a thread of its own for gradients, and the
speed, the memory and the remaining differences in rounding of real hardware.

    python tests/pretend_device.py -m attentively translate --model toy-additive "the dog sleeps"

runs a module, or a script, on the device.
"""

import functools
import os
import runpy
import sys

import torch
from torch._library import simple_registry
from torch.optim import optimizer
from torch.utils import _foreach_utils, backend_registration

NAME = "pretend"
CPU = torch.device("cpu")
DEVICE = torch.device("privateuseone", 0)
BELOW_ONE = 1 - 2**-24
"""Times this a 32-bit float has another last bit; a zero, as behind a mask, stays zero."""
MIXED = "Expected all tensors to be on the same device, but found at least two devices"
COPIES = {"copy_", "_to_copy", "_copy_from", "is_same_size", "set_"}
"""Operations that move values between devices, or look at shapes alone."""
INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}
"""Operations whose indices may lie on the CPU."""
PACKED = {
    "_pack_padded_sequence": 1,
    "_pack_padded_sequence_backward": 2,
    **{f"{kind}.data": 1 for kind in ("gru", "lstm", "rnn_tanh", "rnn_relu")},
}
"""Operations on packed sequences, and which argument lies on the CPU: lengths, sizes of batches."""
COMPOSED = ("linear", "matmul", "scaled_dot_product_attention")
"""Operations that PyTorch would compose of several, each of which costs time here."""
ROUNDED = {"mm", "bmm", "addmm", "baddbmm", "_softmax", "_log_softmax", *COMPOSED}
"""Operations whose results have another last bit than on the CPU, as they may on a GPU."""
WITH_A_VALUE = {"fill", "fill_", "masked_fill", "masked_fill_", "index_fill", "index_fill_"}
"""Operations whose last tensor may be a 0-dimensional one of the CPU."""


class PretendTensor(torch.Tensor):
    """A tensor of the device: its shape, and in `held` its values."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held):
        if held.dtype is torch.float64:
            raise TypeError(f"{NAME}:0 has no 64-bit floats: convert on the CPU")
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=DEVICE,
        )
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return run(func, args, kwargs or {})

    def numpy(self, *, force=False):
        if force:
            return self.detach().cpu().numpy()
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy "
            "the tensor to host memory first."
        )

    def __array__(self, dtype=None, copy=None):
        return self.numpy()

    def untyped_storage(self):
        return self.held.untyped_storage()

    def tolist(self):
        return self.detach().cpu().tolist()

    def __format__(self, spec):
        return format(self.item(), spec) if self.dim() == 0 else super().__format__(spec)

    def __repr__(self, *, tensor_contents=None):
        return f"{self.detach().cpu()!r} on {self.device}"

    def __reduce_ex__(self, protocol):
        return _on_device, (self.detach().cpu(), self.requires_grad)


def _on_device(values, requires_grad):
    return values.to(NAME).requires_grad_(requires_grad)


class Generator(torch.Generator):
    """A generator that may belong to the device."""

    def __new__(cls, device="cpu"):
        made = super().__new__(cls, "cpu" if torch.device(device).type == NAME else device)
        made.place = torch.device(device)
        if made.place.type == NAME:
            _generators[made._cdata] = made  # by which an operation knows it: it gets a new object
        return made

    def __init__(self, device="cpu"):
        super().__init__()

    @property
    def device(self):
        return self.place

    def manual_seed(self, seed):
        return super().manual_seed(seed + (self.place.type == NAME))  # other values than the CPU's


class Module:
    """What PyTorch asks of the device, as ``torch.pretend``."""

    @staticmethod
    def is_available():
        return True

    is_initialized = is_available

    @staticmethod
    def is_built():
        return True

    @staticmethod
    def _is_in_bad_fork():
        return False

    @staticmethod
    def device_count():
        return 1

    @staticmethod
    def current_device():
        return 0

    @staticmethod
    def set_device(device):
        pass

    @staticmethod
    def synchronize(device=None):
        pass

    @staticmethod
    def manual_seed_all(seed):
        _own.manual_seed(seed + 1)  # as on a GPU, other values than the CPU's

    manual_seed = manual_seed_all

    @staticmethod
    def get_rng_state(device=NAME):
        return _own.get_state()

    @staticmethod
    def set_rng_state(state, device=NAME):
        _own.set_state(state)

    @staticmethod
    def get_amp_supported_dtype():
        return [torch.float16, torch.bfloat16]

    class device:
        """A context that changes nothing: there is one device of this name."""

        def __init__(self, device=None):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *error):
            return False


_own = torch.Generator()  # the device's default
_generators = {}


class Facts:
    """What the schema of an operation says."""

    def __init__(self, func):
        self.func = func
        arguments = func._schema.arguments
        written = [n for n, a in enumerate(arguments) if a.alias_info and a.alias_info.is_write]
        self.written = [(n, arguments[n].name) for n in written]
        names = [a.name for a in arguments]
        self.device = names.index("device") if "device" in names else None
        self.name = func._schema.name.removeprefix("aten::")
        self.of_cpu = PACKED.get(f"{self.name}.{func._schema.overload_name}".rstrip("."))
        self.draws = torch.Tag.nondeterministic_seeded in func.tags
        self.takes_generator = "generator" in names
        self.pointwise = torch.Tag.pointwise in func.tags or self.name in {"where", "lerp", "lerp_"}
        self.copies = self.name in COPIES
        self.rounded = self.name in ROUNDED


facts = functools.cache(Facts)


def run(func, args, kwargs):
    """Run an operation on what the tensors hold, and return its results on the device."""
    known = facts(func)
    there, here = [], []
    inner = [_unwrap(each, there, here) for each in args]
    inner_kwargs = kwargs and {k: _unwrap(each, there, here) for k, each in kwargs.items()}
    on_device = bool(there)
    if known.device is not None:
        target = kwargs.get("device")
        if target is None and len(args) > known.device:
            target = args[known.device]
        if target is not None:
            on_device = torch.device(target).type == NAME
        if "device" in kwargs and on_device:
            inner_kwargs["device"] = CPU
            inner_kwargs.pop("pin_memory", None)
    if there and here and not known.copies:
        _refuse_mixed(known, args, kwargs)
    if known.draws:
        _refuse_generator(kwargs.get("generator"), on_device)
    result = _computed(known, inner, inner_kwargs, on_device)
    if known.written:
        return _written(known, args, kwargs, result)
    if known.name == "_pack_padded_sequence":
        return _wrap(result[0]), result[1]
    return _wrap(result) if on_device else result


def _tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors(each)


def _unwrap(value, there, here):
    """Return what a tensor holds; list the tensors of the device, and those of the CPU."""
    if isinstance(value, PretendTensor):
        there.append(value)
        return value.held
    if isinstance(value, torch.Tensor):
        here.append(value)
        return value
    if isinstance(value, (list, tuple)) and not (value and type(value[0]) is int):  # no shape
        return type(value)([_unwrap(each, there, here) for each in value])
    return value


def _held(tensor):
    return tensor.held if isinstance(tensor, PretendTensor) else tensor


def _wrap(value):
    if isinstance(value, torch.Tensor):
        return value if isinstance(value, PretendTensor) else PretendTensor(value)
    if isinstance(value, list | tuple):
        return type(value)(map(_wrap, value))
    return value


def _written(known, args, kwargs, result):
    """Return the tensors that an operation changed, as it was given them."""
    changed = [args[n] if n < len(args) else kwargs[name] for n, name in known.written]
    for each in _tensors(changed):
        if isinstance(each, PretendTensor) and each.shape != each.held.shape:
            raise NotImplementedError(f"{known.name} changes the shape of a tensor on {NAME}")
    if result is None:
        return None
    return changed[0] if len(changed) == 1 else type(result)(changed)


def _refuse_mixed(known, args, kwargs):
    """Raise `RuntimeError` where CUDA would, because tensors lie on two devices."""
    given = [each for n, each in enumerate(args) if n != known.of_cpu]
    given = list(_tensors([given, list(kwargs.values())]))
    there = [each for each in given if isinstance(each, PretendTensor)]
    here = [each for each in given if not isinstance(each, PretendTensor)]
    if not there or not here:
        return
    if known.name in INDEXED:
        if not isinstance(args[0], PretendTensor):
            raise RuntimeError(
                "indices should be either on cpu or on the same device as the indexed tensor (cpu)"
            )
        here = [each for each in _tensors(args[2:]) if not isinstance(each, PretendTensor)]
    changed = [args[n] if n < len(args) else kwargs[name] for n, name in known.written]
    if known.pointwise or known.name in INDEXED | WITH_A_VALUE:
        of_cpu = [each for each in _tensors(changed) if not isinstance(each, PretendTensor)]
        here = [each for each in here if each.dim() > 0] + of_cpu
    if here:
        raise RuntimeError(f"{MIXED}, {NAME}:0 and cpu! ({known.name})")


def _refuse_generator(generator, on_device):
    """Raise `RuntimeError` for a generator of the other device."""
    wanted = NAME if on_device else "cpu"
    found = NAME if generator is not None and generator._cdata in _generators else "cpu"
    if generator is not None and found != wanted:
        raise RuntimeError(f"Expected a '{wanted}' device type for generator but found '{found}'")


def _computed(known, args, kwargs, on_device=True):
    """Run an operation on tensors of the CPU, with what makes the device's results differ."""
    drawn = on_device and known.draws and kwargs.get("generator") is None
    if drawn and known.takes_generator:
        drawn, kwargs = False, {**kwargs, "generator": _own}
    result = _drawn(known.func, args, kwargs) if drawn else known.func(*args, **kwargs)
    if on_device and known.rounded and result.dtype == torch.float32:
        return result * BELOW_ONE
    return result


def _drawn(func, args, kwargs):
    """Run an operation with the device's random numbers; the CPU's stay as they are."""
    kept = torch.get_rng_state()
    torch.set_rng_state(_own.get_state())
    try:
        return func(*args, **kwargs)
    finally:
        _own.set_state(torch.get_rng_state())
        torch.set_rng_state(kept)


def _factories():
    """Yield the operations that make a tensor from no other: zeros, arange, randn, …"""
    for schema in torch._C._jit_get_all_schemas():
        if not schema.name.startswith("aten::"):
            continue
        names = {argument.name for argument in schema.arguments}
        kinds = " ".join(str(argument.type) for argument in schema.arguments)
        if {"device", "dtype"} <= names and "Tensor" not in kinds:
            packet = getattr(torch.ops.aten, schema.name.removeprefix("aten::"), None)
            name = schema.overload_name or "default"
            if packet is not None and name in packet.overloads():
                yield getattr(packet, name)


RECURRENT = (
    *(
        f"{kind}.{form}"
        for kind in ("gru", "lstm", "rnn_tanh", "rnn_relu")
        for form in ("input", "data")
    ),
    *("gru_cell", "lstm_cell"),
)
"""Operations that PyTorch would compose of CUDA's own, which the CPU lacks."""


AUTOCAST = {
    torch.bfloat16: (
        *("linear", "matmul", "mm", "bmm", "addmm", "scaled_dot_product_attention", "conv2d"),
        *RECURRENT,
    ),
    torch.float32: ("softmax.int", "log_softmax.int", "layer_norm", "cross_entropy_loss"),
}
"""What autocasting computes in which precision, a part of CUDA's list."""


def _operation(name):
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _cast(func, dtype, *args, **kwargs):
    """Run an operation under autocasting."""
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)
    with torch._C._ExcludeDispatchKeyGuard(keys):
        return func(*(_in(dtype, each) for each in args), **kwargs)


def _in(dtype, value):
    if isinstance(value, list | tuple):
        return [_in(dtype, each) for each in value]
    floats = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.to(dtype) if floats else value


class _OneStep(torch.autograd.Function):
    """An operation of many steps, with its gradient, as one step on the held tensors."""

    @staticmethod
    def forward(ctx, func, args, kwargs, *tensors):
        with torch.enable_grad():
            ctx.held = [_held(each).detach().requires_grad_(each.requires_grad) for each in tensors]
            made = _computed(facts(func), _filled(args, iter(ctx.held)), kwargs)
        ctx.made = (made,) if isinstance(made, torch.Tensor) else made
        out = tuple(PretendTensor(each.detach()) for each in ctx.made)
        return out[0] if made is ctx.made[0] else out

    @staticmethod
    def backward(ctx, *gradients):
        wanted = [each for each in ctx.held if each.requires_grad]
        pairs = [(m, g.held) for m, g in zip(ctx.made, gradients, strict=True) if g is not None]
        made, given = zip(*pairs, strict=True)
        found = iter(torch.autograd.grad(made, wanted, given, allow_unused=True, retain_graph=True))
        of_each = [next(found) if each.requires_grad else None for each in ctx.held]
        found = (None if each is None else PretendTensor(each) for each in of_each)
        return None, None, None, *found


def _filled(value, tensors):
    """Return `value` with the next of `tensors` in the place of each of its own."""
    if isinstance(value, torch.Tensor):
        return next(tensors)
    if isinstance(value, list | tuple):
        return [_filled(each, tensors) for each in value]
    return value


def _as_one_step(func, *args, **kwargs):
    if not torch.is_grad_enabled():
        return run(func, args, kwargs)
    _refuse_mixed(facts(func), args, kwargs)
    return _OneStep.apply(func, args, kwargs, *_tensors(args))


@functools.cache
def install():
    """Register the device with PyTorch; it stays for as long as the process."""
    backend_registration._setup_privateuseone_for_python_backend(NAME, Module())
    torch.nn.Module._apply = _apply
    torch.Generator = Generator
    torch.inference_mode = torch.no_grad
    simple_registry.find_torch_dispatch_rule = lambda *_: None  # there are none, and it is slow
    for types in (optimizer._foreach_supported_types, _foreach_utils._foreach_supported_types):
        types.append(PretendTensor)  # optimizers change all parameters in one step, as on a GPU
    torch.autograd.set_multithreading_enabled(False)  # a thread of its own would be slow
    library = torch.library.Library("aten", "IMPL")
    for func in _factories():
        kernel = functools.partial(_made, func)
        library.impl(
            func._schema.name.removeprefix("aten::")
            + (f".{func._schema.overload_name}" if func._schema.overload_name else ""),
            kernel,
            "PrivateUse1",
        )
    library.impl("_copy_from", _copied, "PrivateUse1")  # for torch.tensor, below Python's own key
    autocast = torch.library.Library("_", "IMPL")
    autocast.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    for dtype, names in AUTOCAST.items():
        for name in names:
            library.impl(
                name, functools.partial(_cast, _operation(name), dtype), "AutocastPrivateUse1"
            )
    for name in RECURRENT + COMPOSED:
        func = _operation(name)
        for key in ("PrivateUse1", "AutogradPrivateUse1"):
            library.impl(name, functools.partial(_as_one_step, func), key)
    return library, autocast  # they last as long as somebody holds them


def _made(func, *args, **kwargs):
    return run(func, args, kwargs)


_plain_apply = torch.nn.Module._apply


def _apply(module, fn, recurse=True):
    """Move a module and keep its parameters, and so those that are tied, and its optimizer.

    Parameters of two classes are swapped where others exchange their values.
    """
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        return _plain_apply(module, fn, recurse)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before)


def _copied(source, to, non_blocking=False):
    _held(to).copy_(_held(source))
    return to


def main(arguments):
    """Run a module (``-m NAME``) or a script on the device."""
    install()
    os.environ["ATTENTIVELY_DEVICE"] = NAME
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    import pretend_device  # the module by its name, as what runs imports it

    pretend_device.main(sys.argv[1:])
