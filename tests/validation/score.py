"""Errors of predictions, by run and by source. Errors are predicted / measured - 1; a bias is that of the geometric mean of the ratios."""
import collections
import hashlib
import math
import statistics

import mapping
import measured
import rule
import runner


class Row:
    """One prediction of one case (or of one completion of it)."""

    def __init__(self, source, case, verdict, scenario, reasons):
        self.source, self.case, self.verdict, self.scenario, self.reasons = source, case, verdict, scenario, reasons
        self.time_s, self.time_from = measured.step_time(case)
        self.memory_gib, self.memory_member = measured.memory(source, case)
        self.report = self.failure = None

    @property
    def group(self):
        return (self.source, str(self.case["model"].get("name")), self.scenario["training"]["precision"])

    @property
    def time_error(self):
        predicted = (self.report or {}).get("step", {}).get("time_s")
        return predicted / self.time_s - 1 if predicted and self.time_s else None

    @property
    def predicted_gib(self):
        if not self.report or not self.memory_member:
            return None
        stage = measured.STAGE.get(self.source)
        return (self.report["memory"] if stage is None else self.report["stages"][stage]).get(self.memory_member)

    @property
    def memory_error(self):
        return self.predicted_gib / self.memory_gib - 1 if self.predicted_gib else None

    def record(self):
        r = self.report or {}
        return {"source": self.source, "id": self.case["id"], "verdict": self.verdict.kind, "group": list(self.group), "where": self.case.get("where"),
                "completed": self.case.get("completed"), "measured_s": self.time_s, "measured_from": self.time_from,
                "predicted_s": r.get("step", {}).get("time_s"), "time_error": self.time_error, "measured_gib": self.memory_gib,
                "memory_member": self.memory_member, "predicted_gib": self.predicted_gib,
                "memory_error": self.memory_error, "fits": r.get("memory", {}).get("fits"), "breakdown": r.get("breakdown"), "failure": self.failure}


def prepare(sources, limit=None, corners=False):
    """Verdicts of every case, the rows to run for the determined ones, and those of the completions of the underdetermined ones."""
    verdicts, rows, completed, unmapped = [], [], [], collections.Counter()
    for source, cases in sources:
        kept = 0
        if limit:  # in the order of a hash: a file's own order may follow what was measured
            cases = sorted(cases, key=lambda c: hashlib.sha256(str(c["id"]).encode()).hexdigest())
        for case in cases:
            verdict = rule.sort(case, source in mapping.MACHINES)
            verdicts.append((source, case, verdict))
            if verdict.kind == rule.REFUSED or not (measured.step_time(case)[0] or measured.memory(source, case)[0]):
                continue
            if limit and kept >= limit:
                continue
            variants = [case] if verdict.kind == rule.DETERMINED else mapping.completions(case, verdict.missing, corners=corners)
            if variants is None:
                continue
            try:
                made = [Row(source, v, verdict, *mapping.scenario(source, v)) for v in variants]
            except mapping.Unmapped as e:
                unmapped[(source, str(e))] += 1
                continue
            kept += 1
            (rows if verdict.kind == rule.DETERMINED else completed).extend(made)
    return verdicts, rows, completed, unmapped


def predict(binary, rows, jobs, timeout):
    for row, (report, failure) in zip(rows, runner.run_all(binary, [r.scenario for r in rows], jobs, timeout)):
        row.report, row.failure = report, failure


def bias(errors):
    return math.exp(statistics.fmean(math.log1p(e) for e in errors)) - 1


def absolute_median(errors):
    return statistics.median(abs(e) for e in errors)


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def summary(rows, member):
    """{runs, bias, median, p90, worst} of the errors called `member`; None without one."""
    errors = [getattr(r, member) for r in rows if getattr(r, member) is not None]
    if not errors:
        return None
    return {"runs": len(errors), "bias": bias(errors), "median": absolute_median(errors), "p90": percentile([abs(e) for e in errors], 0.9),
            "worst": max(errors, key=abs)}


def by_source(rows):
    out = collections.defaultdict(list)
    for r in rows:
        out[r.source].append(r)
    return dict(sorted(out.items()))


def median_of_groups(rows):
    """(median over (source, model, precision) of the median |step-time error|, number of groups)."""
    groups = collections.defaultdict(list)
    for r in rows:
        if r.time_error is not None:
            groups[r.group].append(abs(r.time_error))
    if not groups:
        return None, 0
    return statistics.median(statistics.median(v) for v in groups.values()), len(groups)
