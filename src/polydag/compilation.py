"""How kernels are compiled: with numba, on first use, once, and as little as possible.

`kernel` is for functions that Python calls, `inner` for those that only other kernels call. The latter need
no wrapper that unpacks Python objects, which takes long to compile, most of all for tuples of arrays. Both
compile one version of a function where numba would compile several: within kernels, constants are passed as
ordinary numbers, and signed integers as int64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit, types
from numba.core.registry import CPUDispatcher

Dispatcher: Any = CPUDispatcher  # numba's own annotations do not cover these
numba: Any = types
Function = TypeVar("Function", bound=Callable[..., Any])


class _Kernel(Dispatcher):  # type: ignore[misc]
    """A compiled function with one version for all constants and signed integers that kernels pass to it."""

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
        dispatcher: Any = njit(cache=True, nogil=True, **options)(function)
        if isinstance(dispatcher, Dispatcher):  # not with NUMBA_DISABLE_JIT
            dispatcher.__class__ = _InnerKernel if inner else _Kernel
        return dispatcher  # type: ignore[no-any-return]

    return decorate


def _widened(argument: Any) -> Any:
    """The type that stands for this one in a call from another kernel."""
    general = numba.unliteral(argument)
    return numba.int64 if isinstance(general, numba.Integer) and general.signed else general


kernel = compiled()
inner = compiled(inner=True)
