#!/usr/bin/env python3
"""The accuracy gate: predictions of the shipped published runs against what was recorded in accuracy.json.

usage: accuracy_gate.py ORRERY [--record]

Fails where a source's median |error| of step time or memory is worse than the recorded one by more than a point, where a run is no longer
predicted, or where fewer underdetermined runs lie within the range of their completions. --record writes the figures anew.
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import score  # noqa: E402

RECORD = os.path.join(HERE, "accuracy.json")
SLACK = 0.01


def figures(binary):
    folders = sorted(d for d in os.listdir(HERE) if os.path.exists(os.path.join(HERE, d, "cases.json")))
    sources = [(d, json.load(open(os.path.join(HERE, d, "cases.json")))["cases"]) for d in folders]
    _, rows, completed, unmapped = score.prepare(sources, corners=True)
    score.predict(binary, rows + completed, os.cpu_count() or 1, 300)
    out = {}
    for source, group in score.by_source(rows).items():
        time, memory = score.summary(group, "time_error"), score.summary(group, "memory_error")
        out[source] = {"step_time": {"runs": time["runs"], "median": round(time["median"], 4), "bias": round(time["bias"], 4)} if time else None,
                       "memory": {"runs": memory["runs"], "median": round(memory["median"], 4), "bias": round(memory["bias"], 4)} if memory else None}
    for source, ranges in _ranges(completed).items():
        out.setdefault(source, {})["within_range"] = {"runs": len(ranges), "within": sum(low <= t <= high for t, low, high in ranges)}
    return out, [f"{r.source} {r.case['id']}: {r.failure}" for r in rows if r.failure] + [f"{s}: {why}" for s, why in unmapped]


def _ranges(completed):
    """source -> [(measured, least, greatest)]."""
    cases = {}
    for r in completed:
        if r.report and r.time_s:
            cases.setdefault((r.source, r.case["id"]), []).append(r)
    out = {}
    for (source, _), rs in cases.items():
        times = [r.report["step"]["time_s"] for r in rs]
        out.setdefault(source, []).append((rs[0].time_s, min(times), max(times)))
    return out


def compare(now, recorded):
    """Sentences, one for each figure that has become worse."""
    worse = []
    for source, was in recorded.items():
        got = now.get(source, {})
        for member in ("step_time", "memory"):
            if not was.get(member):
                continue
            if not got.get(member) or got[member]["runs"] < was[member]["runs"]:
                worse.append(f"{source}: {member} of fewer runs than the {was[member]['runs']} recorded")
            elif got[member]["median"] > was[member]["median"] + SLACK:
                worse.append(f"{source}: median {member} error {100 * got[member]['median']:.1f} %, recorded {100 * was[member]['median']:.1f} %")
        if was.get("within_range") and (got.get("within_range") or {"within": 0})["within"] < was["within_range"]["within"]:
            worse.append(f"{source}: fewer runs within the range of their completions than the {was['within_range']['within']} recorded")
    return worse


def main():
    now, failures = figures(sys.argv[1])
    for source, f in now.items():
        print(f"{source:34s} " + "  ".join(f"{m} {f[m]}" for m in ("step_time", "memory", "within_range") if f.get(m)))
    if "--record" in sys.argv[2:]:
        with open(RECORD, "w") as f:
            json.dump(now, f, indent=1)
            f.write("\n")
        return 0
    problems = failures + compare(now, json.load(open(RECORD)))
    for p in problems:
        print("worse:", p)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
