"""What a published run measured, in seconds and GiB, with the field that it was computed from."""
import re

from rule import number

# Floating-point conventions that state their factor: hardware FLOPs with full recomputation (arXiv:2104.04473, section 5.1: 96 B s l h^2 ...)
# and model FLOPs (arXiv:2205.05198, equation 7: 72 B L s h^2 ...). Each: leading factor, divisor of the vocabulary term.
CONVENTIONS = ((r"^\D*96|F = 96", 96, 16), (r"72", 72, 12))


def step_time(case):
    """(seconds, field) or (None, reason)."""
    if case.get("valid_for") and "throughput" not in case["valid_for"]:
        return None, "the source's throughput is not valid for this run"
    m, t, model = case["measured"], case.get("training") or {}, case["model"]
    batch, seq, gpus = number(t.get("global_batch_sequences")), number(model.get("seq_len")), number(case["hardware"].get("num_gpus"))
    if number(m.get("step_time_s")):
        return m["step_time_s"], "step_time_s"
    if batch and seq and gpus and number(m.get("tokens_per_s_per_gpu")):
        return batch * seq / (m["tokens_per_s_per_gpu"] * gpus), "tokens_per_s_per_gpu"
    if batch and seq and number(m.get("tokens_per_s")):
        return batch * seq / m["tokens_per_s"], "tokens_per_s"
    if batch and number(m.get("samples_per_s")):
        return batch / m["samples_per_s"], "samples_per_s"
    if batch and seq and gpus and number(m.get("tflops_per_gpu")):
        formula = str(m.get("flops_formula") or "")
        for pattern, factor, vocabulary in CONVENTIONS:
            if re.search(pattern, formula) and all(number(model.get(k)) for k in ("layers", "hidden", "vocab")):
                layers, hidden, vocab = model["layers"], model["hidden"], model["vocab"]
                flops = factor * batch * seq * layers * hidden**2 * (1 + seq / (6 * hidden) + vocab / (vocabulary * layers * hidden))
                return flops / (m["tflops_per_gpu"] * 1e12 * gpus), "tflops_per_gpu by the formula of the source"
    return None, "no step time, throughput or rate of a known convention"


# Which of the report's memory figures a source's own figure is: PyTorch's peak allocated, or its peak reserved.
ALLOCATED = ("simumax_b200",)


# Sources whose figure is that of one pipeline stage rather than of the worst rank. nanotron's table is written by a rank of the first stage: the
# parameter counts in it ("local_params_logging_rank") are those of the embedding and its layers.
STAGE = {"nanotron_bench_success": 0, "nanotron_bench_oom": 0}


def memory(source, case):
    """(GiB, member of the report's memory section) or (None, None)."""
    m = case["measured"]
    if case.get("valid_for") and "memory" not in case["valid_for"]:
        return None, None
    if number(m.get("peak_memory_gib_per_gpu")):
        return m["peak_memory_gib_per_gpu"], "peak_allocated_gib" if source in ALLOCATED else "peak_reserved_gib"
    if number(m.get("peak_reserved_gib_per_gpu")):
        return m["peak_reserved_gib_per_gpu"], "peak_reserved_gib"
    if number(m.get("peak_memory_active_gib")):
        return m["peak_memory_active_gib"], "peak_allocated_gib"
    if number(m.get("peak_memory_bytes_per_gpu")):
        return m["peak_memory_bytes_per_gpu"] / 2**30, "peak_allocated_gib"
    return None, None
