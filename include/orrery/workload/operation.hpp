#pragma once
// What a GPU is asked to do: operations with exact shapes, FLOPs and bytes. No durations here; cost gives those.
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "orrery/base/units.hpp"

namespace orrery::workload {

enum class DType : std::uint8_t { kFp32, kTf32, kFp16, kBf16, kFp8, kMxfp8, kMxfp6, kFp4, kInt8 };
/// Bytes of one stored element; fp8 and below without their scales.
double element_bytes(DType t);
const char* to_string(DType t);

/// cuBLAS names of the three GEMMs of a linear layer: forward TN, input gradient NN, weight gradient NT.
enum class GemmLayout : std::uint8_t { kTN, kNN, kNT };

/// D[m,n] (+)= A[m,k] B[k,n], batch times.
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  DType in = DType::kBf16, out = DType::kBf16;
  GemmLayout layout = GemmLayout::kTN;
  bool accumulate = false;  ///< reads D as well (fp32 accumulation into main_grad)
  bool sparse = false;      ///< B is stored 2:4: half its elements and two bits of position for each that is kept
  [[nodiscard]] Flops flops() const { return Flops(2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(batch)); }
  bool operator==(const Gemm&) const = default;
};

/// How the products of several experts are launched.
enum class GroupLaunch : std::uint8_t {
  kOneKernel,     ///< one persistent kernel works through the tiles of all groups (CUTLASS grouped, DeepGEMM, torch._grouped_mm)
  kManyStreams,   ///< one GEMM a group, dealt to several streams whose tails overlap (Transformer Engine multi_stream_cublas_gemm)
  kOneByOne,      ///< one GEMM after another
};

/// A product per expert: `one` is all of them but for the tokens, which differ by group and stand in `tokens`. They are rows (m) of the
/// forward and of the input gradient, and the reduction (k) of the weight gradient; that extent of `one` is not used.
struct GroupedGemm {
  Gemm one;
  std::vector<std::int64_t> tokens;
  GroupLaunch launch = GroupLaunch::kOneKernel;
  [[nodiscard]] Gemm group(std::size_t i) const {
    Gemm g = one;
    (g.layout == GemmLayout::kNT ? g.k : g.m) = tokens[i];
    return g;
  }
  [[nodiscard]] Flops flops() const;
  bool operator==(const GroupedGemm&) const = default;
};

/// One fused (flash) attention kernel. Unfused attention is batched GEMMs and a softmax stream instead. Under a causal mask the last query
/// sees every key and each one before it one key less, so that a rank's later part of a sequence attends to all that precedes it
/// (flash_attn_func, "aligned to the bottom right corner"); queries that are more than the keys see nothing.
struct Attention {
  std::int64_t batch = 1, seq_q = 0, seq_kv = 0, heads = 0, kv_heads = 0, dim_qk = 0, dim_v = 0;
  bool causal = true, backward = false;
  DType dtype = DType::kBf16;
  std::int64_t window = 0;  ///< keys that a query sees, itself included; 0: all
  bool chunked = false;     ///< the window is a chunk of the sequence inside which queries see
  bool softcap = false;     ///< scores pass c tanh(x/c)
  /// Keys that a query sees on the mean; the diagonal counts half, as published rates count it.
  [[nodiscard]] double mean_keys() const;
  /// Model FLOPs of the mask in use: forward 2 b h sq mean_keys (dqk + dv); backward x (3 dqk + 2 dv)/(dqk + dv) (modelling 3.1).
  [[nodiscard]] Flops flops() const;
  bool operator==(const Attention&) const = default;
};

/// Share of an s x s square of scores that is visible: all, or half of it where causal (a row's own key counts half), within a window of
/// w keys s w - w^2/2 (modelling 3.1) and within chunks of c keys half of each chunk's square. window 0: none.
double visible_share(std::int64_t sequence, bool causal, std::int64_t window, bool chunked);

/// Which of a convolution's three products.
enum class ConvolutionPass : std::uint8_t { kForward, kInputGradient, kWeightGradient };

/// A two-dimensional convolution over square kernels, channels last.
struct Convolution {
  std::int64_t images = 1, in_channels = 0, out_channels = 0;
  std::int64_t in_size = 0, out_size = 0;  ///< height and width of the square maps, in and out
  std::int64_t kernel = 1, stride = 1;
  ConvolutionPass pass = ConvolutionPass::kForward;
  DType in = DType::kBf16, out = DType::kBf16;
  /// Of every pass: two for each image, output pixel, output channel, tap and input channel.
  [[nodiscard]] Flops flops() const;
  /// The product that an implicit GEMM runs (Chetlur et al., cuDNN, arXiv:1410.0759, section 3.2). Forward: m = images x output pixels,
  /// n = output channels, k = input channels x taps. Input gradient: m = input pixels, and a stride of s meets 1/s^2 of the taps at each.
  /// Weight gradient: output channels by input channels x taps, summed over the output pixels.
  [[nodiscard]] Gemm implicit_gemm() const;
  /// Elements of the two operands and of the result as they lie in memory: an implicit product's own operands repeat them.
  [[nodiscard]] std::int64_t operand_elements() const;
  [[nodiscard]] std::int64_t result_elements() const;
  bool operator==(const Convolution&) const = default;
};

/// Memory-bound kernels by class; each class has its own efficiency in the profile (modelling 2.1).
enum class StreamKind : std::uint8_t { kCopy, kElementwise, kNorm, kSoftmax, kPermute, kEmbedding, kCrossEntropy, kOptimizer, kReduce, kCast };
const char* to_string(StreamKind k);

/// `kernels` launches that together read and write so many bytes of device memory.
struct Stream {
  StreamKind kind = StreamKind::kElementwise;
  std::int64_t read_bytes = 0, write_bytes = 0;
  int kernels = 1;
  bool operator==(const Stream&) const = default;
};

/// The group a collective runs over, by its axis of the rank grid. dp spans cp too (gradients and parameters); of dp with replicas,
/// dp_shard is one replica and dp_replicas the ranks that hold the same shard; model: tp x pp (norm, inf check); world: all. Experts stand
/// on a second grid over the same ranks (design 5.1): ep, etp and expert_dp are its axes.
/// to_host, from_host: a rank alone, to and from the memory of its host; host_update: the host's own work for a rank.
/// mirror: the two ranks of a two-way pipeline that hold the same stages.
enum class Axis : std::uint8_t { kTp, kCp, kEp, kPp, kDp, kDpReplicas, kEmbedding, kModel, kWorld, kEtp, kExpertDp, kToHost, kFromHost, kHostUpdate, kToDrives, kFromDrives, kSwapOut, kSwapIn, kDpShard, kMirror };
/// kToDrives, kFromDrives: between a device and its node's drives; kSwapOut, kSwapIn: between host memory and those.
constexpr bool with_drives(Axis a) { return a == Axis::kToDrives || a == Axis::kFromDrives || a == Axis::kSwapOut || a == Axis::kSwapIn; }
constexpr bool with_host(Axis a) { return a == Axis::kToHost || a == Axis::kFromHost || a == Axis::kHostUpdate || with_drives(a); }
const char* to_string(Axis a);
enum class CommKind : std::uint8_t { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kBroadcast, kReduce, kSendRecv };

/// How tokens get to their experts and back (parallelism.ep_dispatch): all-to-all by one of the paths below, or every rank gathers all tokens
/// of the group and picks its own (Megatron-LM MoEAllGatherTokenDispatcher).
enum class ExpertDispatch : std::uint8_t { kAllToAll, kHierarchical, kDeepEp, kAllGather };
/// How an all-to-all takes tokens to experts.
enum class TokenPath : std::uint8_t {
  kDirect,        ///< every copy from its source to its expert's rank: grouped sends and receives
  kHierarchical,  ///< copies for one domain travel together to its rank of the same place, and fan out there
  kDeduplicated,  ///< as hierarchical, but a token crosses once per domain and once per rank, however many of its experts are there (DeepEP)
};
/// What decides how often a token travels. Default: not tokens.
struct TokenRoute {
  TokenPath path = TokenPath::kDirect;
  std::int64_t experts = 0, per_token = 0, group_limit = 0;  ///< group_limit 0: none
  std::int64_t copy_bytes = 0;  ///< of one copy of one token
  bool combine = false;         ///< back from the experts
  int sms = 0;                  ///< that the library's kernels run on
  bool operator==(const TokenRoute&) const = default;
};

/// bytes as nccl-tests counts them: the whole array for all-reduce, all-gather (output), reduce-scatter (input) and all-to-all (what a rank
/// sends, its own part included; where ranks differ, what the busiest sends or receives); of a send_recv what every rank of the group sends
/// to its next.
/// With a ticket the communication runs beside what follows, after all that stands before it, until an Await of the same ticket, or of a later
/// one on the axis; tickets are numbers of one pass, each used once. Without one the compute stream does nothing else meanwhile.
struct Comm {
  CommKind kind = CommKind::kAllReduce;
  Axis axis = Axis::kTp;
  std::int64_t bytes = 0;
  int ticket = -1;
  int sms = -1;  ///< that its kernel holds; -1: as NCCL's does, 0: copy engines move the data
  TokenRoute route{};
  bool operator==(const Comm&) const = default;
};

/// What follows starts when the communication with this ticket has ended, and with it those on the same axis before it.
struct Await {
  int ticket = 0;
  bool operator==(const Await&) const = default;
};

/// One operation of a rank's compute stream (or, for Comm, of the axis' communication stream that the compute stream waits for).
struct Operation {
  std::string name;  ///< "qkv", "attention", "swiglu", …: what a profiler would show
  std::variant<Gemm, Attention, Stream, Comm, Await, GroupedGemm, Convolution> work;
  /// Of matrix products, attention and convolutions; 0 for the rest.
  [[nodiscard]] Flops flops() const;
  bool operator==(const Operation&) const = default;
};

}  // namespace orrery::workload
