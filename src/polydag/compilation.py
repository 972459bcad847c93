"""How kernels are compiled: with numba, on first use, once, and as little as possible.

`kernel` is for functions that Python calls, `inner` for those that only other kernels call. The latter need
no wrapper that unpacks Python objects, which takes long to compile, most of all for tuples of arrays. Both
compile one version of a function where numba would compile several: within kernels, constants are passed as
ordinary numbers, and signed integers as int64.

What is compiled is kept on the disk, until the source changes, or that of a kernel which it calls.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, TypeVar

from numba import njit, types
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.registry import CPUDispatcher

Dispatcher: Any = CPUDispatcher  # numba's own annotations do not cover these
Cache: Any = FunctionCache
CacheFile: Any = IndexDataCacheFile
numba: Any = types
Function = TypeVar("Function", bound=Callable[..., Any])


class _KernelFile(CacheFile):  # type: ignore[misc]
    """The index of a kernel on the disk. One that cannot be read, as after an upgrade, counts as empty."""

    def _load_index(self) -> dict[Any, str]:
        try:
            return dict(super()._load_index())
        except Exception:  # whatever unpickling raises: modules may have been renamed, the file cut short
            return {}


class _KernelCache(Cache):  # type: ignore[misc]
    """numba's cache, but for a stamp that covers the kernels called from other modules."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self.stamp = self._impl.locator.get_source_stamp()
        called = sorted({each.stamp for each in _called_from(function)})
        if called:
            self.stamp = hashlib.sha256(repr((self.stamp, called)).encode()).digest()
        self._cache_file = _KernelFile(self._cache_path, self._impl.filename_base, self.stamp)

    def load_overload(self, signature: Any, context: Any) -> Any:
        try:
            return super().load_overload(signature, context)
        except Exception:
            return None


def _called_from(function: Any) -> Iterator[_KernelCache]:
    """The caches of kernels of other modules that a function may call: those that its module has imported."""
    for value in function.__globals__.values():
        ours = isinstance(value, ModuleType) and value.__name__.startswith("polydag.")
        for kernel in vars(value).values() if ours else (value,):
            if isinstance(kernel, _Kernel) and kernel.py_func.__module__ != function.__module__:
                yield kernel._cache


class _Kernel(Dispatcher):  # type: ignore[misc]
    """A compiled function with one version for all constants and signed integers that kernels pass to it."""

    def enable_caching(self) -> None:
        self._cache = _KernelCache(self.py_func)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        kws = {name: _widened(each) for name, each in dict(kws).items()}
        return super().get_call_template(tuple(map(_widened, args)), kws)


class _InnerKernel(_Kernel):
    """One without a wrapper for Python, where numba itself would end the process."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"{self.py_func.__name__} is compiled for other kernels only: declare it with `kernel` instead "
            "of `inner`, or call its `py_func`"
        )


def compiled(*, inner: bool = False, fastmath: bool | set[str] = False) -> Callable[[Function], Function]:
    """A decorator that compiles a function on first use and keeps the result on disk.

    Parameters
    ----------
    inner : bool
        Whether only other kernels call the function. Called from Python, it raises a `TypeError`.
    fastmath : bool or set of str
        The liberties taken with floating-point numbers, as in numba.
    """
    options: dict[str, Any] = {"fastmath": fastmath, "no_cfunc_wrapper": True, "no_cpython_wrapper": inner}

    def decorate(function: Function) -> Function:
        dispatcher: Any = njit(nogil=True, **options)(function)
        if isinstance(dispatcher, Dispatcher):  # not with NUMBA_DISABLE_JIT
            dispatcher.__class__ = _InnerKernel if inner else _Kernel
            dispatcher.enable_caching()
        return dispatcher  # type: ignore[no-any-return]

    return decorate


def _widened(argument: Any) -> Any:
    """The type that stands for this one in a call from another kernel."""
    general = numba.unliteral(argument)
    return numba.int64 if isinstance(general, numba.Integer) and general.signed else general


kernel = compiled()
inner = compiled(inner=True)
