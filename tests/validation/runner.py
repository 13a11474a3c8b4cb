"""Runs the binary on scenarios, a few at a time, in the order given."""
import concurrent.futures
import json
import os
import subprocess
import tempfile


def run_one(binary, scenario, timeout):
    """(report, None) or (None, why)."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "scenario.json")
        with open(path, "w") as f:
            json.dump(scenario, f)
        try:
            r = subprocess.run([binary, "simulate", path, "--json", "-", "--quiet"], capture_output=True, text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            return None, f"no answer within {timeout:g} s"
    if r.returncode not in (0, 1) or not r.stdout.strip():
        line = (r.stderr.strip().splitlines() or [f"exit {r.returncode}, nothing printed"])[0]
        return None, line.replace(path, "")[:200]
    try:
        return json.loads(r.stdout), None
    except ValueError:
        return None, "the report is no JSON"


def run_all(binary, scenarios, jobs, timeout):
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda s: run_one(binary, s, timeout), scenarios))
