// orrery/profile/1: fitted constants of a GPU, a fabric or both, each with its origin (design 3).
#include "document/description.hpp"

namespace orrery::document {
namespace {

Type origin() { return choice({{"measured"}, {"interpolated"}, {"extrapolated"}, {"published"}, {"datasheet"}, {"default"}}); }

Type parameter() {
  Type t = object({
      member("value", number(-1e18, 1e18), "the parameter").required(),
      member("low", number(-1e18, 1e18), "lower end of its 90 % interval"),
      member("high", number(-1e18, 1e18), "upper end"),
      member("origin", origin(), "how it is known").required(),
      member("source", text(), "whence, where it differs from the profile's"),
  });
  t.shared_name = "parameter";
  return t;
}

/// ln(measured/predicted) on a grid of three extents.
Member residual(const char* doc) {
  Type t = object({
      member("axes", array(array(positive(), 1, 1000), 3, 3), "three lists of extents, each rising").required(),
      member("thousandths", array(integer(-2000, 2000), 1), "ln(measured/predicted) x 1000 at every node, the last axis fastest").required(),
  });
  t.shared_name = "residual";
  return member("residual", t, doc);
}

std::vector<Member> parameters(std::vector<std::pair<const char*, const char*>> rows) {
  std::vector<Member> members;
  for (const auto& [name, doc] : rows) members.push_back(member(name, parameter(), doc));
  return members;
}

Type gemm() {
  std::vector<Member> members = parameters({
      {"efficiency", "of the dense peak, best tile, boost clocks"},
      {"wave_overhead_us", "prologue and epilogue of a wave of tiles"},
      {"launch_us", "gap between kernels of a stream"},
      {"bandwidth_efficiency", "of the memory bandwidth"},
      {"wave_hardness", "1: whole waves; 0: fractional (persistent kernels)"},
      {"layout_nn", "rate of NN over TN"},
      {"layout_nt_accumulate", "rate of NT with fp32 accumulation over TN"},
      {"align_penalty", "time ratio where a contiguous dimension is no multiple of 16 bytes"},
      {"sparse_efficiency", "of twice the dense rate, with one operand stored 2:4"},
      {"sustained_ratio", "time at sustained clocks over time at boost, long kernels"},
      {"sustained_flops", "FLOPs of one kernel at which half of that has set in"},
      {"burst_flops", "the same in a short burst from idle"},
      {"l2_fraction", "of L2 that activation and output may fill and still be found there"},
      {"l2_bandwidth_factor", "their bandwidth over the device memory's"},
      {"weight_l2_fraction", "of L2 that a weight may fill and still be found there inside the measured rows"},
      {"quantise_us", "start of a quantisation inside the measured rows"},
      {"quantise_bandwidth", "of the memory bandwidth, while quantising"},
  });
  members.push_back(member("tiles", array(object({
                               member("m", integer(1, 4096), "rows").required(),
                               member("n", integer(1, 4096), "columns").required(),
                               member("per_sm", integer(1, 8), "tiles at once on an SM").otherwise(1),
                               member("factor", positive(1), "rate over the best tile's").otherwise(1),
                           })), "tiles that the library chooses from").otherwise(Value::Array()));
  members.push_back(member("split_k_max", integer(1, 16), "how far the library splits K").otherwise(8));
  members.push_back(residual("what the parameters leave, over m, n and k of one product"));
  return object(std::move(members));
}

Type attention() {
  std::vector<Member> members = {
      member("kernel", text(), "fa1, fa2, fa3, cudnn, …").required(),
      member("dim", integer(1, 1 << 16), "head dimension").required(),
  };
  for (Member& m : parameters({{"forward_efficiency", "of the dense 16-bit peak at long sequences"},
                               {"backward_efficiency", "the same, backward"},
                               {"saturation_causal", "tokens at which half the rate is reached, causal"},
                               {"saturation_full", "the same, full"},
                               {"fill_exponent", "1: work and longest tile add; 0: the longer of the two"},
                               {"launch_us", "start of the kernel"}})) {
    members.push_back(std::move(m));
  }
  members.push_back(member("query_tile", integer(1, 1 << 16), "rows of queries per block").otherwise(128));
  members.push_back(residual("what the parameters leave, forward, over sequences, queries and heads"));
  return object(std::move(members));
}

std::vector<Member> exchange() {
  const auto direction = [](const char* name, const char* doc) {
    return member(name, object(parameters({{"latency_us", "of an exchange of nothing"},
                                           {"token_us", "of a token, by a pair of SMs"},
                                           {"token_gb_per_s", "rate of a token's bytes, by a pair of SMs"},
                                           {"copy_us", "of each rank that it goes to, by a pair of SMs"},
                                           {"copy_gb_per_s", "rate of each copy's bytes, by a pair of SMs"}})), doc);
  };
  std::vector<Member> members = parameters({{"scale_up_efficiency", "of the scale-up port, copies to other ranks"}});
  members.push_back(direction("dispatch", "to the experts"));
  members.push_back(direction("combine", "back from them"));
  return members;
}

Type collective() {
  return object({
      member("kind", choice({{"all_reduce"}, {"all_gather"}, {"reduce_scatter"}, {"all_to_all"}, {"broadcast"}, {"reduce"}, {"send_recv"}}), "what was run").required(),
      member("algorithm", text(), "as the library calls it; empty: its choice").otherwise(""),
      member("ranks", integer(1, 1 << 30), "members").required(),
      member("nodes", integer(1, 1 << 30), "nodes they stand on").otherwise(1),
      member("nccl_version", integer(0, 99999), "10000 x major + 100 x minor; 0: not known").otherwise(0),
      member("scale_up_gb_per_s", positive(), "nominal scale-up rate per GPU that it was measured on"),
      member("nic_gb_per_s", positive(), "nominal scale-out rate per GPU that it was measured on"),
      member("bytes", array(positive(), 1), "sizes, ascending").required(),
      member("time_us", array(positive(), 1), "times, one per size").required(),
      member("origin", origin(), "how it is known").otherwise("published"),
      member("source", text(), "whence"),
  });
}

}  // namespace

const Type& profile_type() {
  static const Type type = object(document_members("profile", true, {
      member("name", text(), "name").otherwise(""),
      member("provenance", choice({{"measured"}, {"published"}, {"datasheet"}}), "the best origin in it").required(),
      member("gpu", text(), "catalogue name of the GPU it is for"),
      member("same_part", array(text()), "other catalogue GPUs of the same silicon").otherwise(Value::Array()),
      member("architecture", text(), "the generation it is for, where it holds for all of it"),
      member("fabric", text(), "catalogue name or kind of the fabric it is for"),
      member("nccl_version", text(), "of the measurements"),
      member("gemm", map(gemm()), "by matmul dtype"),
      member("stream", map(object(parameters({{"efficiency", "of memory bandwidth"}, {"half_bytes", "size at half the rate"}, {"launch_us", "start of a kernel"}}))), "by kind of streaming kernel"),
      member("attention", array(attention()), "by kernel and head dimension").otherwise(Value::Array()),
      member("collectives", array(collective()), "curves of time over bytes").otherwise(Value::Array()),
      member("links", object(parameters({{"scale_up_efficiency", "of the scale-up port"}, {"nic_efficiency", "of the line rate"}, {"pcie_efficiency", "of PCIe"},
                                               {"nvls_efficiency", "of the scale-up port where the switch reduces"}, {"pairs_efficiency", "of the scale-up port by sends and receives"},
                                               {"ramp_us", "how slowly the rate rises with size inside a domain"}, {"network_ramp_us", "the same between domains"},
                                               {"latency_ratio", "floors over NCCL's latency table inside a domain"}, {"network_latency_ratio", "the same for hops between domains"}})), "fitted link efficiencies and latency ratios"),
      member("overlap", object(parameters({{"hbm_per_wire_byte", "memory traffic of a byte on the wire"}})), "what communication takes from kernels"),
      member("power", object(parameters({{"gamma_tensor", "speed of tensor kernels is (limit / TDP) to this power"}, {"gamma_memory", "the same, memory-bound kernels"}})), "speed under a power limit"),
      member("l2", object(parameters({{"fraction", "of L2 that a tensor may fill and stay resident"}, {"bandwidth_factor", "L2 over device memory bandwidth"}})), "what a kernel finds in L2"),
      member("exchange", object(exchange()), "expert-parallel exchanges by kernels written for them"),
      member("grouped", object(parameters({{"efficiency", "rate over that of one product with as many tiles"}})), "products of several experts in one kernel"),
      member("expected_error", object({member("median", number(0, 100), "median of held-out errors"), member("p90", number(0, 100), "90th percentile")}), "of held-out predictions"),
      member("sources", array(text()), "citations").otherwise(Value::Array()),
      member("notes", array(text()), "what a reader of the numbers should know").otherwise(Value::Array()),
  }));
  return type;
}

}  // namespace orrery::document
