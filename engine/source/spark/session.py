"""The Spark session of a build: one that is there already, or one of our own, which ends with the build.

Takes the master that a spec names; gives a session that keeps what it writes to disk encrypted. Invariant: what Spark
says of its work (numbers of rows, errors that quote a value) goes into the scratch folder, never to a terminal or a
log that stays.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.errors import MissingPackage, SpecError, StoreError

LEAST_JAVA = 17
LEAST_SPARK = 4
MOST_HEAP = 4096
"""Megabytes of Java's memory where nobody chose: Spark's own 1 GB is too little for ten million rows on one machine."""
CONNECT_SECONDS = 5.0
"""How long a master of Spark's own kind may take to answer."""
LONGEST_FOLDER = 60
"""Bytes of the name of a folder in which a socket may lie: with its own that makes 103, which all systems allow."""
PRIVATE = {
    # What is spilled, shuffled and broadcast lies on disk under a key that this application alone has.
    "spark.io.encryption.enabled": "true",
    # Both show numbers of rows, which are true counts.
    "spark.ui.enabled": "false",
    "spark.eventLog.enabled": "false",
    # Errors may quote a row, and those of executors lie in folders of their own.
    "spark.log.level": "OFF",
    "spark.executor.syncLogLevel.enabled": "true",
    "spark.driver.maxResultSize": "0",
}
"""Settings of a session of our own."""
OF_STATEMENTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    # With pruning, rows of text with too few or too many fields would be read without a word.
    "spark.sql.csv.parser.columnPruning.enabled": "false",
}
"""Settings of our statements, in anybody's session; what was set before comes back."""


def is_spark_frame(frame: object) -> bool:
    """Whether an object is a DataFrame of Spark."""
    return type(frame).__module__.startswith("pyspark.sql.") and hasattr(frame, "sparkSession")


@contextlib.contextmanager
def spark_session(master: str, frame: Any, scratch: Path) -> Iterator[Any]:
    """Lend a session: that of a DataFrame, the active one, or a new one, which is stopped at the end.

    master: Where a new session runs; empty: as `spark-defaults.conf` says, else on all cores of this machine.
    """
    check_packages()
    with warnings.catch_warnings():
        # pyspark warns of the version of pandas: none of its pandas functions is used here.
        warnings.filterwarnings("ignore", message="PySpark does not yet", category=FutureWarning)
        own: Any = None
        session = _found() if frame is None else frame.sparkSession
        if session is None:
            _check_java()
            _check_master(master)
            session = own = _started(master, scratch)
        try:
            _check_session(session)
            before = {name: session.conf.get(name, None) for name in OF_STATEMENTS}
            for name, value in OF_STATEMENTS.items():
                session.conf.set(name, value)
            try:
                yield session
            finally:
                with contextlib.suppress(Exception):  # the session may be lost
                    for name, old in before.items():
                        session.conf.unset(name) if old is None else session.conf.set(name, old)
        finally:
            if own is not None:
                _ended(own)


def check_packages() -> None:
    """See that pyspark is there, and new enough."""
    try:
        import pyarrow  # noqa: F401
        import pyspark
    except ImportError:
        raise MissingPackage(
            'source.engine: Spark needs pyspark and pyarrow: pip install "tablepack[spark]"'
        ) from None
    version = pyspark.__version__
    if int(version.split(".")[0]) < LEAST_SPARK:
        raise MissingPackage(
            f"source.engine: pyspark {version} is too old; from {LEAST_SPARK}.0 on it will do"
        )


def _found() -> Any:
    """The session that is there already, whichever thread made it: not ours to stop. None: there is none."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None and SparkContext._active_spark_context is not None:
        session = SparkSession.builder.getOrCreate()
    return session


def _check_java() -> None:
    """Java is there, and new enough."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    try:
        said = subprocess.run([java or "java", "-version"], capture_output=True, text=True).stderr
    except OSError:
        said = ""
    found = re.search(r'version "(\d+)', said)
    if found is None:
        where = f", and JAVA_HOME ({home}) has none" if home else ""
        raise MissingPackage(
            f"source.engine: Spark needs Java {LEAST_JAVA} or later, which was not found{where}; install it, such as "
            f"with apt-get install openjdk-{LEAST_JAVA}-jre-headless, or set JAVA_HOME"
        )
    if int(found[1]) < LEAST_JAVA:
        raise MissingPackage(
            f"source.engine: Spark needs Java {LEAST_JAVA} or later; {java} is {found[1]}"
        )


def _check_master(master: str) -> None:
    """A master of Spark's own kind answers: Spark itself would try for a minute, and then end the process."""
    found = re.fullmatch(r"spark://([^:,/]+):(\d+)", master)
    if found is None:
        return
    try:
        socket.create_connection((found[1], int(found[2])), CONNECT_SECONDS).close()
    except OSError:
        raise StoreError(f"source.master: {master} cannot be reached") from None


def _started(master: str, scratch: Path) -> Any:
    """A session of our own; what Java prints goes into a file in the scratch folder."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    session = None
    with (
        # Workers on this machine run this very Python.
        _unless_chosen("PYSPARK_PYTHON", sys.executable),
        _unless_chosen("SPARK_DRIVER_MEMORY", _heap()),  # spark.driver.memory comes before it
        _printing_into(scratch / "spark.log"),
    ):
        with contextlib.suppress(Exception):
            SparkContext._ensure_initialized()  # reads spark-defaults.conf
            conf = SparkConf()
            if master:
                conf.setMaster(master)
            conf.setIfMissing("spark.master", "local[*]")
            conf.setIfMissing("spark.app.name", "tablepack")
            for name, value in PRIVATE.items():
                conf.set(name, value)
            if str(conf.get("spark.master")).startswith("local"):
                conf.set("spark.local.dir", str(scratch / "spark"))
                if len(os.fsencode(scratch)) <= LONGEST_FOLDER:
                    # Java and its Python workers talk in our own folder, from Spark 4.1 on, and not by a port: of ten
                    # million rows TCP once stood still for ever, with both sides full.
                    setting = "spark.python.unix.domain.socket"
                    conf.set(f"{setting}.enabled", "true").set(f"{setting}.dir", str(scratch))
                conf.setIfMissing("spark.sql.shuffle.partitions", str(2 * (os.cpu_count() or 1)))
            session = SparkSession.builder.config(conf=conf).getOrCreate()
    if session is None:
        _ended(None)
        raise StoreError(
            f"source.engine: Spark cannot be started{f' on {master}' if master else ''}; see whether `pyspark` "
            "starts there by itself"
        )
    return session


@contextlib.contextmanager
def _unless_chosen(name: str, value: str) -> Iterator[None]:
    """Set a variable of the environment for a while, unless somebody has set it."""
    is_chosen = name in os.environ
    os.environ.setdefault(name, value)
    try:
        yield
    finally:
        if not is_chosen:
            del os.environ[name]


def _heap() -> str:
    """Memory of the Java that we start: half of the machine's, at most what is enough; 1 GB where it is not told."""
    if not hasattr(os, "sysconf"):
        return "1g"
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return f"{min(MOST_HEAP, machine // 2)}m"


@contextlib.contextmanager
def _printing_into(path: Path) -> Iterator[None]:
    """Let processes that are started here print their errors into a file: Java's may quote what it reads."""
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    kept = os.dup(2)
    try:
        os.dup2(target, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(target)


def _ended(session: Any) -> None:
    """Stop a session of our own, and the Java that was started for it."""
    from pyspark import SparkContext

    with contextlib.suppress(Exception):
        if session is not None:
            session.stop()
    gateway = SparkContext._gateway
    if gateway is None:
        return
    with contextlib.suppress(Exception):
        gateway.shutdown()
    java = getattr(gateway, "proc", None)
    if java is not None:
        with contextlib.suppress(Exception):
            java.stdin.close()
            java.wait(timeout=20)
        with contextlib.suppress(Exception):
            java.kill()  # nothing where it is over: it may not write where its files are removed
            java.wait()
    SparkContext._gateway = SparkContext._jvm = None


def _check_session(session: Any) -> None:
    """The session is of a version that we know, and keeps to itself what it writes and sends."""
    import pyspark

    context = getattr(session, "sparkContext", None) if hasattr(session, "_jsparkSession") else None
    if context is None:
        raise SpecError(
            "source.engine: a session of Spark Connect cannot lend its executors our code; use a classic session"
        )
    if context.version.split(".")[:2] != pyspark.__version__.split(".")[:2]:
        raise SpecError(
            f"source.engine: Spark {context.version} runs, and pyspark is {pyspark.__version__}; both must be of one "
            "version (see SPARK_HOME)"
        )
    conf = context.getConf()

    def is_on(name: str) -> bool:
        return str(conf.get(name, "false")).lower() == "true"

    problems = []
    if not is_on("spark.io.encryption.enabled"):
        problems.append(
            'source.engine: the Spark session must be started with spark.io.encryption.enabled = "true", or rows and a '
            "key derived for tokens would lie in the clear in its folders"
        )
    if not str(context.master).startswith("local") and not (
        is_on("spark.network.crypto.enabled") or is_on("spark.ssl.rpc.enabled")
    ):
        problems.append(
            f"source.master: on {context.master} a session must be started with "
            'spark.authenticate = "true" and spark.network.crypto.enabled = "true", or rows would cross the network '
            "in the clear"
        )
    if problems:
        raise SpecError(problems)
