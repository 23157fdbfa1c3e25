"""Ctrl-C and SIGTERM at any moment of any command: exit 130 or 143, one sentence, no traceback, no orphan."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from fixtures.pipeline import (
    ACCEPTED,
    COMMAND,
    environment,
    left_over,
    make_frame,
    tablepack,
    write_spec,
)

from engine.cli import PATIENCE, STOPPED, Ending, ending

COLUMNS = {"AGE": {"kind": "integer"}, "SEX": {"kind": "category"}, "INCOME": {"kind": "integer"}}
FOREVER = "SELECT count(*) FROM range(100000000000) a"
COMMANDS = {
    "--help": ("--help",),
    "sql": ("sql", "r.duckdb", FOREVER),
    "build": ("build", "release.toml", "-o", "new.duckdb", "--force"),
    "plan": ("plan", "release.toml"),
    "init": ("init", "people.csv", "-o", "new.toml", "--force"),
    "evaluate": ("evaluate", "r.duckdb", "--data", "people.csv", "-o", "e.html", "--force"),
    "attack": ("attack", "r.duckdb", "--data", "people.csv", "-o", "a.html", "--force"),
    "compare": ("compare", "release.toml", "--levers", "-o", "c.html", "--force"),
    "publish": ("publish", "r.duckdb", "pack"),
    "export": ("export", "r.duckdb", "csv"),
    "serve": ("serve", "r.duckdb", "--port", "0"),
    "show": ("show", "r.duckdb"),
    "simulate": ("simulate", "census", "--people", "300000"),
    "doctor": ("doctor", "r.duckdb"),
}
MOMENTS = (0.0, 0.02, 0.1, 0.3, 0.7, 1.2, 2.0, 3.0)
"""Seconds after the door has opened."""
pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ends")
    make_frame(4000).to_csv(folder / "people.csv", index=False)
    tables = [("AGE",), ("AGE", "SEX"), ("AGE", "INCOME", "SEX")]
    spec = write_spec(
        folder,
        "people.csv",
        COLUMNS,
        tables,
        entities=(),
        privacy=ACCEPTED,
        release={"title": "People"},
    )
    assert tablepack("build", spec, "-o", "r.duckdb", cwd=folder).returncode == 0
    return folder


def is_open(pid: int) -> bool:
    """Whether a process has our handler for SIGTERM; Python itself has none."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigCgt"):
                return bool(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
    return False


def group_of(pid: int) -> set[int]:
    """Processes of a session: those that a command started, too, in groups of their own."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(") ")[2].split()
            if int(fields[3]) == pid and fields[0] != "Z":
                found.add(int(stat.parent.name))
    return found


def ended(folder, scratch, words, how, moment):
    """How a command ends that gets a signal some time after its door has opened; None: it was over before."""
    running = subprocess.Popen(
        [*COMMAND, *words], cwd=folder, env=environment(scratch), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    while running.poll() is None and not is_open(running.pid):
        time.sleep(0.002)
    try:
        running.wait(moment)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, how)
    try:
        _, err = running.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)  # one that hangs fails this test alone
        running.communicate(timeout=20)
        raise
    until = time.monotonic() + 20
    while group_of(running.pid):
        assert time.monotonic() < until, f"an orphan lives on after {words}"
        time.sleep(0.02)
    return running.returncode, err


def check(folder, scratch, name, how, moment):
    """Whether the command was ended by the signal; else it was over before."""
    for made in ("pack", "csv", "census"):
        subprocess.run(["rm", "-rf", str(folder / made)], check=True)
    code, err = ended(folder, scratch, COMMANDS[name], how, moment)
    case = (name, how.name, moment, code, err)
    assert "Traceback" not in err, case
    assert "bug" not in err, case
    if code in (0, 2):
        return False
    assert code == 128 + how, case
    assert err.splitlines()[-1] == STOPPED, case
    assert err.count(STOPPED) == 1, case
    assert left_over(scratch) == [], case
    return True


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "terminate"])
@pytest.mark.parametrize("name", ["sql", "serve"])
def test_what_runs_long_ends_cleanly(made, scratch, name, how):
    check(made, scratch, name, how, 1.5)


@pytest.mark.parametrize("moment", [0.0, 0.1, 0.4])
def test_a_command_that_is_still_loading_ends_cleanly(made, scratch, moment):
    check(made, scratch, "evaluate", signal.SIGINT, moment)


def test_a_build_ends_cleanly(made, scratch):
    check(made, scratch, "build", signal.SIGTERM, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_ends_cleanly_at_any_moment(made, scratch, name):
    """At any moment until it is over: where it ended by itself before four signals in a row, later ones say no more."""
    rng = random.Random(name)
    met = []
    for moment in MOMENTS:
        for how in (signal.SIGINT, signal.SIGTERM):
            met.append(check(made, scratch, name, how, moment * rng.uniform(0.7, 1.3)))
        if len(met) >= 4 and not any(met[-4:]):
            break


# The handler by itself.


def test_the_first_signal_is_raised_and_later_ones_wait():
    handler = Ending()
    with pytest.raises(KeyboardInterrupt):
        handler(signal.SIGINT)
    handler(signal.SIGINT)  # what the first one ended is not disturbed
    handler._since -= PATIENCE
    with pytest.raises(KeyboardInterrupt):
        handler(signal.SIGTERM)
    assert handler.code == 130
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_REAL, 600)
    handler.close()
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    for number, one in before.items():
        signal.signal(number, one)
    handler._since -= PATIENCE
    handler(signal.SIGINT)


def test_a_request_to_terminate_is_no_keyboard_interrupt():
    handler = Ending()
    with pytest.raises(SystemExit) as told:
        handler(signal.SIGTERM)
    assert told.value.code == handler.code == 143
    assert not handler.forget()
    assert handler.received


def test_a_prompt_takes_ctrl_c_as_answered():
    handler = Ending()
    with pytest.raises(KeyboardInterrupt):
        handler(signal.SIGINT)
    assert handler.forget()
    assert not handler.received
    assert ending() is None


SWALLOWING = """
import os, signal, sys, time
from engine.cli import run_and_exit
def application():
    class Last:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
    {body}
run_and_exit(application)
"""
AT_ONCE = """
import atexit, os, sys, threading, time
from engine.cli import main, run_and_exit
if {is_called}:
    del main
class Held:
    def __del__(self, write=os.write):
        write(1, b"taken apart\\n")
def application():
    sys.held = Held()
    atexit.register(print, "registered")
    threading.Thread(target=lambda: time.sleep(0.3) or print("thread")).start()
    print("output")
    raise SystemExit(4)
run_and_exit(application)
"""
KILL = "os.kill(os.getpid(), 2); time.sleep(5)"
BODIES = {
    "where nothing can be raised": "one = Last(); del one; time.sleep(20)",
    "while Python ends": """
    class Slow:
        def __del__(self, sleep=time.sleep):
            sleep(0.2)
    sys.slow = Slow()
    one = Last(); del one""",
    "turned into another error": f"""
    try: {KILL}
    except BaseException: raise RuntimeError('a value')""",
    "swallowed": f"""
    try: {KILL}
    except BaseException: pass""",
    "swallowed by what goes on": f"""
    try: {KILL}
    except BaseException: pass
    time.sleep(600)""",
    "swallowed after a while": f"""
    try: {KILL}
    except BaseException: time.sleep(0.7)
    time.sleep(600)""",
    "swallowed where another error is handled": f"""
    try: 1 / 0
    except ZeroDivisionError:
        try: {KILL}
        except BaseException: pass
        time.sleep(600)""",
    "in a thread": f"""
    import threading
    threading.Thread(target=lambda: time.sleep(.2) or 1 / 0).start()
    {KILL}""",
}


@pytest.mark.parametrize("is_called", [False, True])
def test_a_command_ends_at_once_when_all_is_done(is_called, tmp_path):
    """Only where it is the program: who calls the command line from Python may have something to end, too."""
    code = AT_ONCE.replace("{is_called}", str(is_called))
    done = subprocess.run(
        [COMMAND[0], "-c", code], env=environment(), cwd=tmp_path, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (4, "")
    last = ["taken apart"] if is_called else []
    assert done.stdout.split("\n")[:-1] == ["output", "thread", "registered", *last]


def run(body, folder):
    """Exit code, output and errors of an application."""
    done = subprocess.run(
        [COMMAND[0], "-c", SWALLOWING.replace("{body}", body)],
        env=environment(), cwd=folder, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("body", BODIES)
def test_a_signal_counts_whatever_becomes_of_it(body, tmp_path):
    assert run(BODIES[body], tmp_path) == (130, "", STOPPED + "\n")


def module(folder, seconds, *signals):
    """Write a module that sends some signals as it is loaded, and takes long."""
    sent = "".join(f"os.kill(os.getpid(), {int(number)})\n" for number in signals)
    ends = f"time.sleep({seconds})\nprint('loaded', flush=True)\n"
    (folder / "large.py").write_text(f"import os, time\n{sent}{ends}")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "terminate"])
@pytest.mark.parametrize(
    "where", ["import large", "\n    try: 1 / 0\n    except ArithmeticError: import large"]
)
def test_a_module_is_loaded_to_its_end(where, how, tmp_path):
    """What is raised in the middle aborts libraries of C, and is swallowed by Python's compiler."""
    module(tmp_path, 0.1, how)
    assert run(f"{where}; time.sleep(600)", tmp_path) == (128 + how, "loaded\n", STOPPED + "\n")


def test_a_second_signal_ends_a_module_that_is_never_loaded(tmp_path):
    module(tmp_path, 600, signal.SIGINT)
    later = f"threading.Timer({PATIENCE + 0.3}, os.kill, (os.getpid(), 2))"
    body = f"import threading; t = {later}; t.daemon = True; t.start(); import large"
    assert run(body, tmp_path) == (130, "", STOPPED + "\n")


def test_a_request_to_terminate_counts_though_a_ctrl_c_is_answered(tmp_path):
    module(tmp_path, 0.1, signal.SIGINT, signal.SIGTERM)
    body = """
    from engine.cli import ending
    try: import large; time.sleep(600)
    except KeyboardInterrupt: print(ending().forget(), flush=True)
    time.sleep(600)"""
    assert run(body, tmp_path) == (143, "loaded\nTrue\n", STOPPED + "\n")


def test_an_answered_ctrl_c_is_not_raised_again(tmp_path):
    body = f"""
    from engine.cli import ending
    try: {KILL}
    except KeyboardInterrupt: ending().forget()
    time.sleep(0.8)
    print("goes on", flush=True)"""
    assert run(body, tmp_path) == (0, "goes on\n", "")


CLEANING = {
    "under way": f"""
    try: {KILL}
    finally:
        time.sleep(1.2)
        print("clean", flush=True)""",
    "as the last is let go of": f"""
    class Held:
        def __del__(self, sleep=time.sleep, print=print):
            sleep(0.8)
            print("clean", flush=True)
    def inner():
        held = Held()
        {KILL}
    inner()""",
}


@pytest.mark.parametrize("body", CLEANING)
def test_what_ends_a_command_is_not_raised_again(body, tmp_path):
    """Where cleaning up takes long it runs to its end."""
    assert run(CLEANING[body], tmp_path) == (130, "clean\n", STOPPED + "\n")


def test_a_request_to_terminate_ends_the_prompt(made, scratch):
    import pty

    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        [*COMMAND, "sql", "r.duckdb"], cwd=made, env=environment(scratch), stdin=theirs,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    line = running.stderr.readline()
    assert line.startswith("Ask:")
    running.send_signal(signal.SIGTERM)
    _, err = running.communicate(timeout=60)
    os.close(ours)
    assert running.returncode == 143
    assert err.strip().endswith(STOPPED)
    assert "Traceback" not in err
