"""Sorts a published run by its fields alone, before anything is predicted: determined, underdetermined or refused.

refused          the run lies outside what this version models, or its own fields contradict one another
underdetermined  something that decides the answer is not stated; each missing thing is named, so that the completions can be tried
determined       everything that decides the answer is stated: only these are scored

The rule sees no measurement except whether one exists, and no prediction. docs/accuracy.md says the same in prose.
"""
import dataclasses
import re

DETERMINED, UNDERDETERMINED, REFUSED = "determined", "underdetermined", "refused"


@dataclasses.dataclass
class Verdict:
    kind: str
    reasons: list          # sentences; never empty
    missing: list          # names of what is not stated, keys of mapping.COMPLETIONS where they can be tried


def number(x):
    return x if isinstance(x, (int, float)) and not isinstance(x, bool) else None


def text(x):
    return "" if x is None else str(x)


def precision_word(case):
    """The precision in the words of a scenario; narrow: 8 bits or fewer in a way that is not modelled or not told; None where nothing is said."""
    p = text((case.get("training") or {}).get("precision")).lower()
    if re.search(r"fp8|float8|mxfp|nvfp4|fp4|int4|nf4", p):
        if re.search(r"rowwise|int4|nf4|parenthesised|\bor\b", p):
            return "narrow"
        return "mxfp8" if "mxfp8" in p else "fp4" if "nvfp4" in p else "fp8"
    for word, pattern in (("bf16", r"bf16|bfloat16"), ("fp16", r"fp16|mixed|amp|float16"), ("tf32", r"tf32"), ("fp32", r"fp32|float32")):
        if re.search(pattern, p):
            return word
    return None


def scale_up_domain(case):
    """GPUs that share one switched NVLink domain."""
    hardware = case["hardware"]
    if "NVL72" in text(hardware.get("gpu")) + text(hardware.get("intra_node")):
        return 72
    return number(hardware.get("gpus_per_node")) or 8


REFUSALS = (  # (reason, predicate on a case)
    ("not a GPU that the catalogue describes", lambda c: bool(re.search(r"TPU|Gaudi|Trainium", text(c["hardware"].get("gpu"))))),
    ("not a transformer language model", lambda c: all(c["model"].get(k) is None for k in ("layers", "hidden", "heads", "seq_len"))),
    ("an encoder or a recurrent transformer, not a decoder", lambda c: bool(re.search(r"BERT|Transformer-XL|T5", text(c["model"].get("name"))))),
    ("FP8 scaled by rows, integer products, or a narrow format that is not told", lambda c: precision_word(c) == "narrow"),
    ("low-rank adapters or a quantised base", lambda c: bool(re.search(r"LoRA|[Aa]dapter|quantization bnb", text((c.get("training") or {}).get("other"))))),
    ("optimizer state or parameters kept in host memory",
     lambda c: "offload" in text((c.get("parallel") or {}).get("zero_stage_or_fsdp")).lower()),
    ("an optimizer other than Adam and SGD", lambda c: bool(re.search(r"muon|lamb|lion|8-bit|adafactor", text((c.get("training") or {}).get("optimizer")), re.I))),
    ("a loss or an optimizer step cut into pieces, or activations kept in host memory",
     lambda c: bool(re.search(r"chunked cross|optimizer.in.backward|activation.offload(?!.*False)", text((c.get("training") or {}).get("other"))))),
    ("sequences of varying length", lambda c: bool(re.search(r"variable-length", " ".join(c.get("flags") or []))) or
     text((c.get("training") or {}).get("other")) == "baseline"),
    ("a wall-clock total that holds checkpoints and evaluation", lambda c: "total_hours_as_printed" in c["measured"] or "gpu_hours" in c["measured"]),
)


def contradictions(case):
    """Fields that cannot all be true."""
    p, t, gpus = case.get("parallel") or {}, case.get("training") or {}, number(case["hardware"].get("num_gpus"))
    tp, pp, cp, dp = (number(p.get(k)) for k in ("tp", "pp", "cp", "dp"))
    out = []
    if gpus and tp and pp:
        rest = tp * pp * (cp or 1)
        if gpus % rest or (dp and dp * rest != gpus):
            out.append(f"tp, pp and dp do not multiply to {gpus} GPUs")
        batch, micro = number(t.get("global_batch_sequences")), number(t.get("micro_batch"))
        if not out and batch and batch % ((gpus // rest) * (micro or 1)):
            out.append("the global batch is not whole microbatches on every replica")
    layers = number(case["model"].get("layers"))
    if layers and pp and pp > layers:
        out.append("more stages than layers")
    return out


def missing_fields(case, machine_named=False):
    """(name, what it decides) of everything that decides the step time and is not stated."""
    m, h, p, t = case["model"], case["hardware"], case.get("parallel") or {}, case.get("training") or {}
    gpus, domain = number(h.get("num_gpus")), scale_up_domain(case)
    tp, pp = number(p.get("tp")), number(p.get("pp"))
    out = []
    if any(not number(m.get(k)) for k in ("layers", "hidden", "ffn_hidden", "heads", "vocab", "seq_len")):
        out.append(("model", "the model's shape"))
    if not text(h.get("gpu")):
        out.append(("gpu", "the GPU"))
    if not gpus:
        out.append(("num_gpus", "the number of GPUs"))
    if tp is None or pp is None:
        out.append(("layout", "the tensor- and pipeline-parallel sizes"))
    if p.get("zero_stage_or_fsdp") is None or "not stated" in text(p.get("zero_stage_or_fsdp")):
        out.append(("zero", "what of the optimizer, gradients and parameters is sharded"))
    if tp and tp > 1 and p.get("sp") is None:
        out.append(("sp", "sequence parallelism"))
    if pp and pp > 1 and number(p.get("vp")) is None:
        out.append(("vp", "chunks per stage"))
    if not number(t.get("global_batch_sequences")):
        out.append(("global_batch", "the global batch"))
    if not number(t.get("micro_batch")):
        out.append(("micro_batch", "the microbatch"))
    if precision_word(case) is None:
        out.append(("precision", "the precision"))
    if t.get("recompute") is None or "not stated" in text(t.get("recompute")):
        out.append(("recompute", "activation recomputation"))
    if not text(t.get("framework")):
        out.append(("framework", "the software stack"))
    if gpus and gpus > domain and not machine_named and not text(h.get("inter_node")) and not re.search(r"\(DGX|NVL72", text(h.get("gpu"))):
        out.append(("fabric", "the network between nodes"))
    if gpus and domain <= 8 and gpus > 1 and re.search(r"PCIe", text(h.get("gpu"))) and not text(h.get("intra_node")):
        out.append(("intra_node", "how the GPUs of a node are wired"))
    return out


def sort(case, machine_named=False):
    """machine_named: the source as a whole names the machine that all its runs stand on."""
    reasons = [f"not modelled by this version: {why}" for why, holds in REFUSALS if holds(case)]
    reasons += [f"the fields contradict one another: {why}" for why in contradictions(case)]
    if reasons:
        return Verdict(REFUSED, reasons, [])
    missing = missing_fields(case, machine_named)
    if missing:
        return Verdict(UNDERDETERMINED, [f"not stated: {what}" for _, what in missing], [name for name, _ in missing])
    return Verdict(DETERMINED, ["shape, hardware, layout, batch, precision, recomputation and stack are stated"], [])
