"""A published run as an orrery/scenario/1, with a reason for every member that the run does not state in so many words.

`scenario(source, case)` returns (scenario, reasons): reasons maps the pointer of a member to why it has that value. What the
stack's own file says (optimizer, buckets, overlap, host costs) stays out of the scenario and is the stack's business.
`completions(case, missing)` lists the values that an underdetermined run could have had.
"""
import itertools
import math
import re

from rule import number, precision_word, text


class Unmapped(Exception):
    """The run is within the rule, but the catalogue or the format lacks what it needs."""


# (pattern on the GPU as published, catalogue node, GPU put in its place, why)
NODES = (
    (r"96GB HBM2e", "meta-grand-teton-h100", {"extends": "h100-sxm5-96gb", "power_limit_w": 500}, "H100 with 96 GB of HBM2e at 500 W in a Grand Teton: that part in that node"),
    (r"H100.*PCIe", "box-8x-h100-pcie", None, "a PCIe H100 sits in a box of eight"),
    (r"H800", "dgx-h100", "h800-sxm5-80gb", "an H800 node is an HGX H100 with the H800 part"),
    (r"H100.*(SXM|DGX)|H100-80GB", "dgx-h100", None, "eight H100 SXM with NVSwitch"),
    (r"H200", "dgx-h200", None, "eight H200 SXM with NVSwitch"),
    (r"GB300", "gb300-nvl72", None, "the NVL72 rack is one scale-up domain"),
    (r"GB200", "gb200-nvl72", None, "the NVL72 rack is one scale-up domain"),
    (r"B300", "dgx-b300", None, "eight B300 SXM with NVSwitch"),
    (r"B200", "dgx-b200", None, "eight B200 SXM with NVSwitch"),
    (r"A100.*PCIe", "box-8x-a100-pcie", None, "a PCIe A100 sits in a box of eight"),
    (r"A100.*40 ?GB", "dgx-a100-40gb", None, "eight A100 SXM4 40 GB with NVSwitch"),
    (r"A800", "dgx-a100-80gb", "a800-sxm4-80gb", "an A800 node is an HGX A100 with the A800 part"),
    (r"A100", "dgx-a100-80gb", None, "eight A100 SXM4 with NVSwitch; where no memory size is given, 80 GB"),
    (r"DGX-2|SXM3", "dgx-2", None, "sixteen V100 with NVSwitch"),
    (r"V100.*16GB", "dgx-1v", "v100-sxm2-16gb", "eight V100 in the hybrid cube mesh"),
    (r"V100", "dgx-1v", "v100-sxm2-32gb", "eight V100 in the hybrid cube mesh"),
    (r"L40S", "box-4x-l40s", None, "L40S on PCIe"),
    (r"MI300X", "mi300x-platform", None, "eight MI300X, fully meshed"),
)

STACKS = (  # (pattern on the framework, stack, why)
    (r"torchtitan", "torchtitan", "the framework has a stack of its own"),
    (r"llm-foundry|Composer", "llm-foundry", "the framework has a stack of its own"),
    (r"nanotron", "nanotron", "the framework has a stack of its own"),
    (r"Megatron-LM.*(2020|2021|2022|v2\.)", "megatron-lm-2021", "Megatron-LM before Megatron-Core"),
    (r"DeepSpeed", "deepspeed", "Megatron-DeepSpeed"),
    (r"NeMo|Bridge", "nemo", "the framework has a stack of its own"),
    (r"Megatron", "megatron-core", "Megatron-LM on Megatron-Core"),
    (r"[Tt]ransformers|HF|Hugging", "hf-trainer", "the framework has a stack of its own"),
)

# Sources whose runs stand on one named machine, which the cases do not repeat.
MACHINES = {
    "nanotron_bench_success": ("efa-p5", "p5.48xlarge", "Hugging Face's cluster of AWS p5.48xlarge, named in the Ultra-Scale Playbook"),
    "nanotron_bench_oom": ("efa-p5", "p5.48xlarge", "Hugging Face's cluster of AWS p5.48xlarge, named in the Ultra-Scale Playbook"),
}


def model(case, source, reasons):
    m = case["model"]
    gated = bool(m.get("gated_mlp"))
    act = text(m.get("activation")).lower()
    mpt = source == "mosaic_llm_foundry"
    out = {"schema": "orrery/model/1", "name": text(m.get("name")), "layers": m["layers"], "hidden": m["hidden"], "ffn_hidden": m["ffn_hidden"],
           "gated_mlp": gated, "activation": "silu" if gated else "relu2" if "relu^2" in act else "relu" if "relu" in act else "gelu",
           "heads": m["heads"], "kv_heads": m.get("kv_heads") or m["heads"], "head_dim": m.get("head_dim") or m["hidden"] // m["heads"],
           "vocab": m["vocab"], "tied_embeddings": bool(m.get("tied_embeddings")),
           "norm": "rms" if gated else "layer", "position": "rotary" if gated else "learned",
           "linear_bias": not gated and not mpt, "norm_bias": not gated and not mpt}
    family = "a gated MLP marks the Llama family: RMS norms, rotary positions, no biases" if gated else "an MLP without gate marks the GPT family: layer norms, learned positions, biases"
    for k in ("norm", "position", "linear_bias", "norm_bias"):
        reasons[f"/model/{k}"] = family
    if mpt:
        reasons["/model/linear_bias"] = reasons["/model/norm_bias"] = "MPT's training configurations set no_bias"
    experts(m, out, reasons)
    if "Nemotron" in out["name"] or "Nemotron" in text(case.get("id")):
        out.update(norm="layer", position="rotary", linear_bias=False, norm_bias=True, activation="relu2", gated_mlp=False)
        for k in ("norm", "position", "linear_bias", "norm_bias", "activation"):
            reasons[f"/model/{k}"] = "Nemotron-4: layer norms, rotary positions, squared ReLU, no biases (arXiv:2406.11704)"
    if m.get("head_dim") is None:
        reasons["/model/head_dim"] = "hidden / heads"
    if m.get("tied_embeddings") is None:
        reasons["/model/tied_embeddings"] = "not stated: untied"
    if out["position"] == "learned":
        out["max_positions"] = m["seq_len"]
        reasons["/model/max_positions"] = "one row per position of the training sequence"
    return out


def experts(m, out, reasons):
    """Mixture of experts and latent attention, where the model has them."""
    if m.get("experts"):
        out["moe"] = {"experts": m["experts"], "experts_per_token": m["experts_per_token"], "expert_ffn": m.get("expert_ffn") or m["ffn_hidden"],
                      "shared_experts": m.get("shared_experts") or 0, "dense_layers": m.get("dense_layers") or 0,
                      "every": 2 if "every second" in text(m.get("moe_layer_freq")) else 1}
        reasons["/model/moe/load"] = "benchmarks force balanced loads"
    if mla := re.search(r"MLA: q_lora_rank (\d+), kv_lora_rank (\d+), qk_nope (\d+), qk_rope (\d+), v (\d+)", text(m.get("attention"))):
        keys = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
        out["mla"] = dict(zip(keys, (int(x) for x in mla.groups())))
        out["head_dim"] = out["mla"]["qk_nope_head_dim"] + out["mla"]["qk_rope_head_dim"]
        reasons["/model/head_dim"] = "both parts of a latent attention's head"


def recompute(case, reasons):
    said = text((case.get("training") or {}).get("recompute"))
    low = said.lower()
    if low.startswith("full") or "activation checkpointing" in low:
        return "full"
    if low.startswith("selective"):
        reasons["/training/recompute"] = f'"{said}": what the stack calls selective'
        return "selective"
    if not low:
        reasons["/training/recompute"] = "not stated: the framework's default, none"
    return "none"


def training(case, reasons):
    t = case["training"]
    word = precision_word(case)
    out = {"sequence_length": case["model"]["seq_len"], "global_batch": t["global_batch_sequences"], "micro_batch": t["micro_batch"],
           "precision": word, "recompute": recompute(case, reasons)}
    if text(t.get("precision")).lower() not in ("bf16", "fp16"):
        reasons["/training/precision"] = f'"{t.get("precision")}"'
    said = text(t.get("precision")).lower()
    if word == "fp8" and re.search(r"current|dynamic|tensorwise", said):
        out["fp8_recipe"] = "current"
        reasons["/training/fp8_recipe"] = f'"{said}": scales of the tensor itself'
    flash = t.get("flash_attention")
    if flash is not None:
        out["attention"] = "flash" if flash else "math"
        if flash is not True and flash is not False:
            reasons["/training/attention"] = f"{flash} is a fused kernel"
    if t.get("compile") is True:
        out["fusion"] = "compiled"
        reasons["/training/fusion"] = "compiled with torch.compile"
    if "bf16 states" in text(t.get("optimizer")) or "true" in text(t.get("precision")):
        out["master_weights"] = False
        reasons["/training/master_weights"] = "pure bf16: parameters and states in one 16-bit copy"
    return out


def zero_stage(case, reasons):
    said = text((case.get("parallel") or {}).get("zero_stage_or_fsdp"))
    low = said.lower()
    stage = 2 if "shard_grad_op" in low or "zero-2" in low else 3 if "fsdp" in low or "zero-3" in low else \
        1 if "zero-1" in low or "distributed optimizer" in low else 0
    reasons["/parallelism/zero"] = f'"{said}"' if said else "not stated: nothing sharded"
    return stage


def parallelism(case, gpus, reasons):
    p = case["parallel"]
    tp, pp = p["tp"], p["pp"]
    vp = (number(p.get("vp")) or 1) if pp > 1 else 1
    cp = number(p.get("cp")) or 1
    out = {"tp": tp, "pp": pp, "vp": vp, "dp": gpus // (tp * pp * cp), "zero": zero_stage(case, reasons)}
    other = text((case.get("training") or {}).get("other"))
    if cp > 1:
        out["cp"] = cp
        out["cp_method"] = "ulysses" if re.search(r"CP all-to-all", other) else "ring"
        reasons["/parallelism/cp_method"] = f'"{other}"' if out["cp_method"] == "ulysses" else "not stated: a ring, the default of Megatron-Core (cp_comm_type p2p) and of torchtitan"
    if tp > 1 and p.get("sp") and re.search(r"async TP(?! communication)|tp-comm-overlap", other):
        out["overlap"] = {"tp": "ring"}
        reasons["/parallelism/overlap/tp"] = f'"{other}": pieces from rank to rank'
    if tp > 1 and p.get("sp") is not None:
        out["sp"] = bool(p["sp"])
    for size in ("ep", "etp"):
        if (number(p.get(size)) or 1) > 1:
            out[size] = p[size]
    out["schedule"] = "interleaved_1f1b" if vp > 1 else "1f1b"
    reasons["/parallelism/schedule"] = "more than one chunk per stage" if vp > 1 else "one chunk per stage"
    layers = case["model"]["layers"]
    if layers % (pp * vp) and (layers + 2) % (pp * vp) == 0:
        out.update(account_for_embedding=True, account_for_loss=True)
        for k in ("account_for_embedding", "account_for_loss"):
            reasons[f"/parallelism/{k}"] = f"{layers} + 2 layers share out evenly over {pp * vp} chunks, {layers} do not"
    return out


def fabric(said, gpu, per_node):
    """(fabric object, NIC members of the node, why) from what a source says about its network."""
    t = said.replace("Gbps", "Gb/s").replace("Gbit/s", "Gb/s").replace("×", "x")
    nics = rate = None
    if m := re.search(r"(\d+) ?x ?(\d+) ?Gb/s|^(\d+)x ConnectX.*?(\d+) ?Gb/s|(\d+) links? of (\d+) ?Gb/s", t):
        nics, rate = (int(x) for x in m.groups() if x)
    elif m := re.search(r"(\d+) ?Gb/s per GPU", t):
        nics, rate = per_node, int(m.group(1))
    elif m := re.search(r"(\d+) ?Gb/s per node", t):
        nics, rate = (4, int(m.group(1)) // 4) if int(m.group(1)) >= 400 else (1, int(m.group(1)))
    elif re.search(r"SuperPOD|Selene|\bHDR\b", t):
        nics, rate = 8, 200
    elif re.search(r"Eos|\bNDR\b|DGX H100|DGX H200|DGX B200", t + gpu):
        nics, rate = 8, 400
    elif re.search(r"\bXDR\b|DGX B300", t + gpu):
        nics, rate = 8, 800
    elif re.search(r"NVL72", gpu):
        nics, rate = per_node, 400
    if nics is None:
        raise Unmapped("the words about the network name no rate")
    ethernet = re.search(r"RoCE|RDMA|Ethernet", t)
    base = "roce-400g-rail" if ethernet else "infiniband-hdr-rail" if rate <= 200 else "infiniband-ndr-rail"
    why = (f'"{said}"' if said else f'the fabric that ships with "{gpu}"') + f": {nics} NICs of {rate} Gb/s per node"
    return {"extends": base, "link_gbit_per_s": rate}, {"nics": nics, "nic_gbit_per_s": rate}, why


def cluster(source, case, gpus, reasons):
    h = case["hardware"]
    gpu = text(h.get("gpu"))
    for pattern, node, part, why in NODES:
        if re.search(pattern, gpu):
            break
    else:
        raise Unmapped("no catalogue node for this GPU")
    reasons["/cluster/node"] = why
    out = {"node": {"extends": node, "gpu": part} if part else node}
    per = number(h.get("gpus_per_node")) or 8
    if node.endswith("nvl72"):
        per = out["gpus_per_node"] = min(64, gpus)
        reasons["/cluster/gpus_per_node"] = "64 of a rack's 72 GPUs, as layouts of powers of two leave it"
    nodes = math.ceil(gpus / per)
    out.update(nodes=nodes, gpus=gpus)
    if source in MACHINES and nodes > 1:
        machine_fabric, machine_node, why = MACHINES[source]
        out["node"] = machine_node
        out["fabric"] = machine_fabric
        reasons["/cluster/fabric"] = reasons["/cluster/node"] = why
    elif nodes > 1:
        out["fabric"], nics, why = fabric(text(h.get("inter_node")), gpu, per)
        if node.endswith("nvl72"):
            nics["nics"] = 72
        base = out["node"] if isinstance(out["node"], dict) else {"extends": node}
        out["node"] = {**base, **nics}
        reasons["/cluster/fabric"] = why
    return out


def checks_collectives(case):
    """Whether the start-up test of a nanotron run shows collectives that wait for checks over sockets. Its all-reduce over all ranks then takes
    a time in proportion to the ranks, so that the bandwidth is (5 to 7 TB/s) / ranks, whatever the network; without the checks it is
    160 GB/s or more from 4 nodes on, and 420 GB/s or more on 2."""
    gpus, said = case["hardware"]["num_gpus"], number(case["measured"].get("allreduce_gb_s"))
    if not said or gpus <= 8:
        return False
    return said < (380 if gpus <= 16 else 172 if gpus <= 32 else 9000 / gpus)


# us per member of a group and collective. The start-up tests themselves, which no prediction touches, give 150 to 320 (what 512 ranks take
# longer than 256, for a buffer of 1 GB whose bandwidth is counted as NCCL's algbw or busbw). Within that range the value was read off the layers'
# times of these runs, so their errors are no held-out figures.
CHECKED_COLLECTIVE_RANK_US = 250


def scenario(source, case):
    reasons = {}
    gpus = case["hardware"]["num_gpus"]
    framework = text((case.get("training") or {}).get("framework"))
    stack, why = next(((s, w) for pattern, s, w in STACKS if re.search(pattern, framework)), ("generic", "no stack of that name"))
    reasons["/stack"] = f'"{framework}": {why}'
    if (kernel := text((case.get("training") or {}).get("flash_attention")).lower()) in ("fa1", "fa2", "fa3"):
        stack = {"extends": stack, "kernels": {"attention_kernel": kernel}}
        reasons["/stack/kernels/attention_kernel"] = "the run names its kernel"
    if stack == "nanotron" and checks_collectives(case):
        stack = {"extends": stack, "host": {"collective_rank_us": CHECKED_COLLECTIVE_RANK_US}}
        reasons["/stack/host/collective_rank_us"] = f"its start-up all-reduce of {case['measured']['allreduce_gb_s']} GB/s takes a time in proportion to the ranks"
    if "fused cross entropy" in text((case.get("training") or {}).get("other")):
        stack = {"extends": stack} if isinstance(stack, str) else stack
        stack.setdefault("kernels", {})["fused_cross_entropy"] = True
        reasons["/stack/kernels/fused_cross_entropy"] = "the run names it"
    out = {"schema": "orrery/scenario/1", "name": text(case["id"])[:200], "model": model(case, source, reasons), "stack": stack,
           "training": training(case, reasons), "parallelism": parallelism(case, gpus, reasons), "cluster": cluster(source, case, gpus, reasons)}
    return out, reasons


# What an underdetermined run may have been: for each missing name, the values to try (pointer into the case -> value).
def _microbatches(case):
    p, gpus = case["parallel"], case["hardware"]["num_gpus"]
    replica = case["training"]["global_batch_sequences"] // (gpus // (p["tp"] * p["pp"]))
    return [b for b in (1, 2, 4, 8, 16) if replica % b == 0]


def _chunks(case):
    p, layers = case["parallel"], case["model"]["layers"]
    fits = [v for v in (1, 2, 3, 4, 5, 6, 8, 10, 12) if layers % (p["pp"] * v) == 0 or (layers + 2) % (p["pp"] * v) == 0]
    said_interleaved = "nterleaved" in text(p.get("schedule")) and "not stated" not in text(p.get("schedule"))
    return [v for v in fits if v > 1] or fits if said_interleaved else fits


COMPLETIONS = {
    "micro_batch": (("training", "micro_batch"), _microbatches),
    "vp": (("parallel", "vp"), _chunks),
    "recompute": (("training", "recompute"), lambda case: ["none", "selective", "full"]),
    "sp": (("parallel", "sp"), lambda case: [True, False]),
    "zero": (("parallel", "zero_stage_or_fsdp"), lambda case: ["none", "ZeRO-1"]),
    "fabric": (("hardware", "inter_node"), lambda case: ["8 x 100 Gb/s RoCE", "8 x 400 Gb/s InfiniBand"]),
}


def completions(case, missing, limit=48, corners=False):
    """Copies of the case with every missing thing filled in, all combinations (corners: of the first and last value of each); None where
    something cannot be filled in."""
    if any(name not in COMPLETIONS for name in missing):
        return None
    axes = [[(COMPLETIONS[name][0], v) for v in COMPLETIONS[name][1](case)] for name in missing]
    if corners:
        axes = [axis[:1] + axis[-1:] if len(axis) > 2 else axis for axis in axes]
    out = []
    for combination in itertools.islice(itertools.product(*axes), limit):
        copy = {**case, **{k: dict(case.get(k) or {}) for k in ("hardware", "parallel", "training")}}
        for (section, key), value in combination:
            copy[section][key] = value
        copy["completed"] = {key: value for (_, key), value in combination}
        out.append(copy)
    return out
