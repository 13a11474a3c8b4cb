#!/usr/bin/env python3
"""Fits the host costs of a stack to a declared half of the runs of one source, and scores the other half.

usage: fit_host.py ORRERY RUNS SOURCE [--keep EXPRESSION] [--every N] [--jobs N]

What Python and the framework do for one operator is a property of the software stack (and of the host's processor), which no microbenchmark
of a GPU shows; small models on a few GPUs do, whose step is host time and little else. Two numbers are fitted, host.forward_op_us =
host.backward_op_us and host.collective_us, by the median of |ln(predicted / measured)| over a grid. A run belongs to the fitted half where the
first hex digit of sha256(id) is even; the rest is held out. --keep: a condition on the case c (p = its parallel, t = its training) that
declares which runs the host decides.
"""
import argparse
import hashlib
import itertools
import json
import math
import os
import statistics
import sys

import runner
import score

OPERATORS = (6, 10, 20, 30, 40, 45, 50, 55, 60, 70)
COLLECTIVES = (15, 50, 100, 150, 200, 300)


def fitted(case):
    return int(hashlib.sha256(str(case["id"]).encode()).hexdigest()[0], 16) % 2 == 0


def with_host(scenario, host):
    stack = scenario["stack"] if isinstance(scenario["stack"], dict) else {"extends": scenario["stack"]}
    return {**scenario, "stack": {**stack, "host": {**stack.get("host", {}), **host}}}


def errors(binary, rows, host, jobs):
    reports = runner.run_all(binary, [with_host(r.scenario, host) for r in rows], jobs, 60)
    return [abs(math.log(report["step"]["time_s"] / r.time_s)) for r, (report, _) in zip(rows, reports) if report]


def say(name, e):
    print(f"{name:>28}: {len(e):4} runs, median {100 * statistics.median(e):5.1f} %, p90 {100 * score.percentile(e, 0.9):5.1f} %", flush=True)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("binary")
    a.add_argument("runs")
    a.add_argument("source")
    a.add_argument("--keep", default="True")
    a.add_argument("--every", type=int, default=1, help="only every n-th run of the fitted half")
    a.add_argument("--jobs", type=int, default=2)
    o = a.parse_args()
    with open(os.path.join(o.runs, o.source + ".json")) as f:
        _, rows, _, _ = score.prepare([(o.source, json.load(f)["cases"])])
    rows = [r for r in rows if r.time_s and eval(o.keep, {"c": r.case, "p": r.case["parallel"], "t": r.case["training"]})]
    half = [r for r in rows if fitted(r.case)][::o.every]
    rest = [r for r in rows if not fitted(r.case)]
    if not half or not rest:
        sys.exit("no runs of that source fit the condition")
    say("stack as it is, fitted half", errors(o.binary, half, {}, o.jobs))
    say("stack as it is, held out", errors(o.binary, rest, {}, o.jobs))
    best = None
    for op, collective in itertools.product(OPERATORS, COLLECTIVES):
        if collective < op:
            continue
        host = {"forward_op_us": op, "backward_op_us": op, "collective_us": collective}
        median = statistics.median(errors(o.binary, half, host, o.jobs))
        if best is None or median < best[0]:
            best = (median, host)
    print("fitted:", best[1])
    say("fitted half", errors(o.binary, half, best[1], o.jobs))
    say("held out", errors(o.binary, rest, best[1], o.jobs))


if __name__ == "__main__":
    main()
