"""Fresh interpreters of our own: no file of ours is open in them but their pipes, no environment but what Python needs.

Such a process can tell that its parent is gone, however that ended, by its standard input, which then closes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from engine.errors import StoreError

PASSED_ENVIRONMENT = (
    *("PATH", "LANG", "LC_ALL", "TZ", "SYSTEMROOT", "NPY_DISABLE_CPU_FEATURES"),
    *("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"),  # where machine code is kept: `engine.kernels`
)


def start_interpreter(
    module: str, folder: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Run a module of ours in a fresh interpreter that works in `folder`.

    environment: In the place of the few variables that Python needs, and of one thread for arithmetic.
    """
    if environment is None:
        passed = {k: v for k, v in os.environ.items() if k in PASSED_ENVIRONMENT}
        environment = {**passed, "OMP_NUM_THREADS": "1"}
    # The empty entry of an interactive session means the folder we are in, which is not the child's.
    python_path = os.pathsep.join(str(Path(p).resolve()) for p in sys.path)
    try:
        return subprocess.Popen(
            # -P: no module is taken from the folder that it works in.
            [sys.executable, "-P", "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**environment, "PYTHONPATH": python_path},
            cwd=folder,
            process_group=0,  # Ctrl-C reaches the parent only; the child ends when its pipe closes
        )
    except OSError as error:
        raise StoreError(f"a further process cannot be started ({error.strerror})") from None


def end_interpreter(child: subprocess.Popen[bytes], *, at_once: bool = False) -> None:
    """Close its pipes and wait for it to end; `at_once` kills it, and all that it has started."""
    if at_once and child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    if child.stdin is not None and not child.stdin.closed:
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()
    if child.stdout is not None:
        child.stdout.close()  # first: nobody reads any more, and it must not wait for that
    child.wait()


def leave_quietly() -> NoReturn:
    """End this process at once, without a word where nobody reads what it wrote.

    Python would take apart what it holds first, which takes up to half a second after a build.
    """
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
