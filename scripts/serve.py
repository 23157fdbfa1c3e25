"""`tablepack serve` under load: steady rates, latencies from the planned start, memory, and a huge join.

    scripts/serve.py RELEASE ROW_COLUMN COLUMN_COLUMN [--seconds 60] [--cached 200] [--distinct 50]
                     [--px TABLE] [--record]

Starts the server as people do, in a process of its own, and sends requests at set moments, whether or not earlier ones
are answered: a stall counts for every request that it holds up. Prints Markdown; exit code 1 where a limit is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import time
from urllib.parse import quote

import numpy as np
from bench import resident
from measured import add_option, command_line, markdown, record

START = "from engine.cli import main; main()"
CROSS = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range + b.range = 7"
P99_MS = 100.0
GROWTH_MB = 30.0
IDLE_S = 3.0
HEADS = (
    *("what", "asked", "per second", "median ms", "p95", "p99", "longest"),
    *("not answered", "memory MB"),
)


class Connections:
    """Connections that are kept open, lent to one request at a time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._free: list[tuple[float, asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(self, path: str) -> tuple[int, bytes]:
        """Ask once; status and body."""
        now = time.monotonic()
        while (
            self._free and self._free[-1][0] < now - IDLE_S
        ):  # the server closes what is idle for 5 s
            self._free.pop()[2].close()
        if self._free:
            _, reader, writer = self._free.pop()
        else:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", head)[1])
        body = await reader.readexactly(length)
        self._free.append((time.monotonic(), reader, writer))
        return int(head.split(b" ", 2)[1]), body


async def steady(connections: Connections, paths, rate: float, seconds: float, progress) -> dict:
    """Send requests at a steady rate; latencies in ms from the planned moment, and what was not 200."""
    loop, took, wrong = asyncio.get_running_loop(), [], []
    began = loop.time()

    async def one(planned: float, path: str) -> None:
        try:
            status, _ = await connections.ask(path)
        except (OSError, asyncio.IncompleteReadError) as error:
            status = type(error).__name__
        took.append((loop.time() - planned) * 1000)
        if status != 200:
            wrong.append(status)

    asks = []
    for i in range(int(rate * seconds)):
        planned = began + i / rate
        await asyncio.sleep(max(0.0, planned - loop.time()))
        asks.append(asyncio.create_task(one(planned, paths(i))))
        progress(i)
    await asyncio.gather(*asks)
    lasted = loop.time() - began
    return {
        "n": len(took),
        "per_s": len(took) / lasted,
        "ms": np.percentile(took, [50, 95, 99, 100]),
        "wrong": wrong,
    }


async def measure(port: int, pid: int, given: argparse.Namespace) -> bool:
    """Run all parts; whether all limits are kept."""
    connections, memory = Connections(port), []
    table = f"/api/tabulate?rows={quote(given.rows)}&cols={quote(given.cols)}"
    for path in (table, "/api/variables"):
        status, _ = await connections.ask(path)
        if status != 200:
            raise SystemExit(f"{path}: status {status}")

    def distinct(i: int) -> str:
        text = f'SELECT "{given.rows}", "{given.cols}", count(*) + {i} AS n FROM data GROUP BY ALL'
        return f"/api/query?sql={quote(text)}"

    def selected(i: int) -> str:
        """The i-th subset of a variable's values, as PxWebApi and SDMX ask for them in turn."""
        codes = [code for k, code in enumerate(px_codes) if (i + 1) >> k & 1]
        if i % 2:
            key = "+".join(codes) + "." * px_dimensions
            return f"/api/sdmx/data/{given.px}/{quote(key)}?format=csv"
        chosen = f"valueCodes[{quote(px_variable)}]={quote(','.join(codes))}"
        return f"/api/px/v2/tables/{given.px}/data?{chosen}"

    def watch(i: int) -> None:
        if i % 50 == 0:
            memory.append(resident(pid) / 1e6)

    def mixed(i: int) -> str:
        share = given.distinct / (given.cached + given.distinct)
        return distinct(10**6 + i) if int((i + 1) * share) > int(i * share) else table

    if given.px:
        _, body = await connections.ask(f"/api/px/v2/tables/{given.px}/metadata")
        about = json.loads(body)
        px_variable, px_dimensions = about["id"][0], len(about["id"]) - 1
        px_codes = list(about["dimension"][px_variable]["category"]["index"])
    print(f"load before: {os.getloadavg()[0]:.1f} (1 min), cores shared with this tool\n")
    rows, ok = list[list[object]](), True
    parts = [
        (f"cached table, {given.cached}/s", lambda _: table, given.cached),
        (f"distinct queries, {given.distinct}/s", distinct, given.distinct),
        ("both at once", mixed, given.cached + given.distinct),
    ]
    if given.px:
        parts.append((f"PxWebApi and SDMX in turn, {given.distinct}/s", selected, given.distinct))
    for name, paths, rate in parts:
        memory.clear()
        got = await steady(connections, paths, rate, given.seconds, watch)
        if got["wrong"]:
            print(f"{name}: {sorted({str(w) for w in got['wrong']})}", file=sys.stderr)
        ms = [f"{v:.1f}" for v in got["ms"]]
        held = f"{memory[0]:.0f} to {memory[-1]:.0f}"
        rows.append([name, got["n"], f"{got['per_s']:.0f}", *ms, len(got["wrong"]), held])
        print(*rows[-1], sep=" | ", flush=True)
        third = max(1, len(memory) // 3)
        grown = np.mean(memory[-third:]) - np.mean(memory[third : 2 * third] or memory)
        ok &= got["ms"][2] <= P99_MS and not got["wrong"] and grown <= GROWTH_MB
    began = time.perf_counter()
    status, body = await connections.ask(f"/api/query?sql={quote(CROSS)}")
    lasted = time.perf_counter() - began
    after = (await connections.ask("/api/query?sql=SELECT%2042"))[0]
    join = f"10^12-row join: status {status} after {lasted:.1f} s ({json.loads(body)['message']}); next: {after}"
    text = f"{markdown(HEADS, rows)}\n\n{join}"
    print(f"\n{text}")
    if given.record:
        record("serve-load", command_line(".venv/bin/python scripts/serve.py"), text)
    return ok and status == 504 and after == 200


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__)
    for name in ("release", "rows", "cols"):
        reader.add_argument(name)
    reader.add_argument("--seconds", type=float, default=60.0)
    reader.add_argument("--cached", type=int, default=200)
    reader.add_argument("--distinct", type=int, default=50)
    reader.add_argument("--px", metavar="TABLE", help="a table of PxWebApi, such as age-sex")
    add_option(reader)
    given = reader.parse_args()
    command = [sys.executable, "-c", START, "serve", given.release, "--port", "0", "--timeout", "3"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            address = re.search(r":(\d+)/", server.stdout.readline())
            if address is None:
                sys.exit("the server did not start; it needs the extra serve")
            ok = asyncio.run(measure(int(address[1]), server.pid, given))
        finally:
            server.terminate()
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
