"""Run the tests marked `portable` as other processors would run them (`make test-portable`).

OpenBLAS adds up in another order on each kind of core, and numba uses wider or fused instructions where the
processor has them, so last bits differ between machines. Both can be told to work as on another processor.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
CORES = ("Prescott", "Haswell", "SkylakeX")  # SSE3, AVX2 with fused multiply-add, AVX-512
PROBE = """
import numpy as np, scipy.linalg
from threadpoolctl import threadpool_info
A = np.random.default_rng(0).normal(size=(200, 200))
scipy.linalg.inv(A @ A.T)
print(", ".join(sorted({each["architecture"] for each in threadpool_info() if "openblas" in each["prefix"]})))
"""


def environment(**changes: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", **changes}


def why_not(core: str) -> str | None:
    """Why OpenBLAS cannot work as on this kind of core here; None where it can."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE], env=environment(OPENBLAS_CORETYPE=core), capture_output=True, text=True
    )
    if done.returncode < 0:
        return "this processor lacks its instructions"
    done.check_returncode()
    used = done.stdout.strip()
    if not used:
        return "NumPy and SciPy do not use OpenBLAS here"
    # On 64 bits the kernels of Prescott serve Katmai too, and OpenBLAS names the first that fits.
    return None if used == core or (core, used) == ("Prescott", "Katmai") else f"OpenBLAS uses {used} instead"


def run(name: str, **changes: str) -> bool:
    """Whether the tests pass in this environment."""
    print(f"--- {name}", flush=True)
    options = ("-m", "portable and not slow", "-n", "2", "--dist", "loadgroup", "-q")
    command = [sys.executable, "-m", "pytest", *options]
    return subprocess.run(command, cwd=ROOT, env=environment(**changes)).returncode == 0


def main() -> int:
    failed = []
    for core in CORES:
        reason = why_not(core)
        if reason is not None:
            print(f"--- OPENBLAS_CORETYPE={core}: skipped, {reason}")
        elif not run(f"OPENBLAS_CORETYPE={core}", OPENBLAS_CORETYPE=core):
            failed.append(core)
    with tempfile.TemporaryDirectory() as cache:  # all kernels are compiled anew
        if not run("NUMBA_CPU_NAME=generic", NUMBA_CPU_NAME="generic", NUMBA_CACHE_DIR=cache):
            failed.append("generic")
    print(f"Failed: {', '.join(failed)}" if failed else "Passed.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
