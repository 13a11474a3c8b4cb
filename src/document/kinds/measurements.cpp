// orrery/measurements/1: what was run on a machine, every repetition's time, and where (design 3).
#include "document/description.hpp"

namespace orrery::document {
namespace {

Type point() {
  return object({
      member("kind", choice({{"gemm"}, {"attention"}, {"stream"}, {"collective"}}), "what was run").required(),
      member("dtype", text(), "gemm, attention: of the operands").otherwise("bf16"),
      member("m", integer(0), "gemm: rows of the output"),
      member("n", integer(0), "gemm: its columns"),
      member("k", integer(0), "gemm: what is summed over"),
      member("layout", choice({{"tn"}, {"nn"}, {"nt"}}), "gemm: forward, input gradient, weight gradient").otherwise("tn"),
      member("accumulate", boolean(), "gemm: adds to its output, in fp32").otherwise(false),
      member("quantise", choice({{"none"}, {"dynamic"}}), "gemm: whether the time holds the activation's quantisation"),
      member("batch", integer(1), "gemm: how many; attention: sequences").otherwise(1),
      member("seq_q", integer(1), "attention: queries of a sequence"),
      member("seq_kv", integer(1), "attention: its keys; null: as many"),
      member("heads", integer(1), "attention: query heads"),
      member("kv_heads", integer(1), "attention: key heads; null: as many"),
      member("head_dim", integer(1), "attention: of a head"),
      member("causal", boolean(), "attention: masked").otherwise(true),
      member("backward", boolean(), "attention: the gradients' kernel").otherwise(false),
      member("kernel", text(), "attention: fa2, fa3, cudnn, …"),
      member("stream", text(), "stream: its kind, as in a profile"),
      member("read_bytes", integer(0), "stream: bytes read"),
      member("write_bytes", integer(0), "stream: bytes written"),
      member("collective", text(), "collective: all_reduce, …"),
      member("algorithm", text(), "collective: as the library calls it"),
      member("bytes", integer(0), "collective: as nccl-tests counts them"),
      member("ranks", integer(1), "collective: members"),
      member("nodes", integer(1), "collective: nodes they stand on").otherwise(1),
      member("context", choice({{"burst"}, {"sustained"}}), "clocks: from idle, or settled under the power limit"),
      member("time_us", array(positive(), 1), "of every repetition").required(),
      member("power_w", number(), "of the device, meanwhile"),
      member("clock_mhz", number(), "of its compute units, meanwhile"),
      member("temperature_c", number(-300), "of the device"),
      member("throttle", text(), "why the device held its clocks back, in its own words"),
      member("from", text(), "where the numbers stand"),
  });
}

}  // namespace

const Type& measurements_type() {
  static const Type type = object(document_members("measurements", false, {
      member("name", text(), "name").otherwise(""),
      member("gpu", text(), "catalogue name of the device"),
      member("environment", map(text()), "driver, cuda, cublas, nccl, clocks, power limit, date, …"),
      member("sources", array(text()), "citations").otherwise(Value::Array()),
      member("points", array(point()), "what was run").required(),
  }));
  return type;
}

}  // namespace orrery::document
