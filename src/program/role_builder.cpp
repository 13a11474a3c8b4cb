#include "role_builder.hpp"

#include <algorithm>
#include <utility>

#include "orrery/base/assert.hpp"

namespace orrery::program {

const char* to_string(Stream s) {
  static constexpr const char* kNames[kStreams] = {"compute", "grad reduce", "param gather", "forward send", "forward receive", "backward send", "backward receive",
                                                     "upward forward send", "upward forward receive", "upward backward send", "upward backward receive",
                                                     "copy out", "copy in", "host update", "context parallel", "replica reduce", "tensor parallel", "expert parallel"};
  return kNames[static_cast<std::size_t>(s)];
}

const char* to_string(Phase p) {
  static constexpr const char* kNames[] = {"forward", "backward", "recompute", "optimizer"};
  return kNames[static_cast<std::size_t>(p)];
}

void RoleBuilder::memory(ItemKind kind, MemoryKind memory_kind, std::int64_t bytes) {
  ORRERY_ASSERT(bytes >= 0, "memory is allocated and freed in whole blocks");
  if (bytes == 0) return;
  Item item;
  item.kind = kind;
  item.memory = memory_kind;
  item.bytes = bytes;
  role_.items.push_back(item);
}

void RoleBuilder::wait(std::uint32_t event) {
  if (event != kNoEvent && std::find(pending_waits_.begin(), pending_waits_.end(), event) == pending_waits_.end()) pending_waits_.push_back(event);
}

std::uint32_t RoleBuilder::compute_done() {
  // Waits that no compute item has taken yet belong to "so far" too: they become an item of their own.
  if (!pending_waits_.empty()) {
    Item item;
    item.kind = ItemKind::kWait;
    device(item, kNoEvent);
  }
  if (last_compute_ == SIZE_MAX) return kNoEvent;
  Item& last = role_.items[last_compute_];
  if (last.record == kNoEvent) last.record = new_event();
  return last.record;
}

std::uint32_t RoleBuilder::device(Item item, std::uint32_t after) {
  item.microbatch = microbatch_;
  item.chunk = chunk_;
  if (item.stream == Stream::kCompute) {
    if (after != kNoEvent) wait(after);
    while (pending_waits_.size() > 1) {
      Item extra;
      extra.kind = ItemKind::kWait;
      extra.wait = pending_waits_.back();
      pending_waits_.pop_back();
      role_.items.push_back(extra);
      ++compute_issued_;
    }
    if (!pending_waits_.empty()) {
      item.wait = pending_waits_.back();
      pending_waits_.clear();
    }
    last_compute_ = role_.items.size();
    ++compute_issued_;
    role_.items.push_back(item);
    return kNoEvent;
  }
  item.wait = after;
  item.record = new_event();
  role_.items.push_back(item);
  return item.record;
}

void RoleBuilder::segment(std::uint32_t index, double extra_host_us) {
  Item item;
  item.kind = ItemKind::kSegment;
  item.index = index;
  item.host_us = extra_host_us;
  device(item, kNoEvent);
}

std::uint32_t RoleBuilder::mark() {
  Item item;
  item.kind = ItemKind::kWait;
  device(item, kNoEvent);
  return compute_done();
}

std::pair<std::int32_t, std::uint32_t>& RoleBuilder::base(std::size_t layer) {
  auto& list = in_flight_[{chunk_, layer}];
  const auto found = std::find_if(list.begin(), list.end(), [&](const auto& entry) { return entry.first == microbatch_; });
  ORRERY_ASSERT(found != list.end(), "a layer's passes follow its forward pass");
  return *found;
}

std::uint32_t RoleBuilder::open(std::size_t layer, std::uint32_t slots) {
  const std::uint32_t base = blocks_.open(slots);
  in_flight_[{chunk_, layer}].emplace_back(microbatch_, base);
  return base;
}

void RoleBuilder::close(std::size_t layer, std::uint32_t slots) {
  auto& entry = base(layer);
  blocks_.close(entry.second, slots);
  auto& list = in_flight_[{chunk_, layer}];
  list.erase(list.begin() + (&entry - list.data()));
}

void RoleBuilder::opening_pass(const Pass& pass, std::size_t layer, std::uint32_t slots) { this->pass(pass, open(layer, slots)); }

void RoleBuilder::closing_pass(const Pass& pass, std::size_t layer, std::uint32_t slots) {
  this->pass(pass, handles(layer));
  close(layer, slots);
}

void RoleBuilder::lone_pass(const Pass& pass, std::uint32_t slots) {
  const std::uint32_t base = blocks_.open(slots);
  this->pass(pass, base);
  blocks_.close(base, slots);
}

void RoleBuilder::start(const Pass& pass, std::uint32_t base) {
  if (!role_.blocks.lists[pass.blocks].events.empty()) blocks_.call(pass.blocks, base);
}

namespace {
/// Of collectives with a ticket, by what they join.
Stream stream_beside(workload::Axis axis) {
  if (axis == workload::Axis::kTp) return Stream::kTensor;
  return axis == workload::Axis::kEp ? Stream::kExperts : Stream::kContext;
}
}  // namespace

void RoleBuilder::issue(const Piece& piece, std::vector<std::uint32_t>& ended) {
  memory(ItemKind::kAllocate, MemoryKind::kActivations, piece.allocate);
  if (piece.awaits) {
    const auto ticket = static_cast<std::size_t>(piece.ticket);
    ORRERY_ASSERT(ticket < ended.size() && ended[ticket] != kNoEvent, "what is waited for has been issued in this pass");
    Item item;
    item.kind = ItemKind::kWait;
    device(item, ended[ticket]);
  } else if (piece.collective && piece.ticket >= 0) {
    const auto ticket = static_cast<std::size_t>(piece.ticket);
    if (ended.size() <= ticket) ended.resize(ticket + 1, kNoEvent);
    ended[ticket] = collective(stream_beside(requests_[piece.index].axis), requests_[piece.index], mark());
  } else if (piece.collective) {
    collective(Stream::kCompute, requests_[piece.index]);
  } else if (!role_.segments[piece.index].operations.empty()) {
    segment(piece.index);
  }
  memory(ItemKind::kFree, MemoryKind::kActivations, piece.free);
}

std::uint32_t RoleBuilder::issue_beside(const Piece& piece) {
  memory(ItemKind::kAllocate, MemoryKind::kActivations, piece.allocate);
  return collective(Stream::kExperts, requests_[piece.index], mark());
}

void RoleBuilder::settle(const Piece& piece, std::uint32_t ended) {
  Item item;
  item.kind = ItemKind::kWait;
  if (ended != kNoEvent) device(item, ended);
  memory(ItemKind::kFree, MemoryKind::kActivations, piece.free);
}

void RoleBuilder::pass(const Pass& pass, std::uint32_t base) {
  start(pass, base);
  std::vector<std::uint32_t> ended;  // by ticket
  for (const Piece& piece : pass.pieces) issue(piece, ended);
}

void RoleBuilder::host_work(double us) {
  if (us <= 0) return;
  Item item;
  item.kind = ItemKind::kHostWork;
  item.host_us = us;
  role_.items.push_back(item);
}

void RoleBuilder::host_sync(std::uint32_t event) {
  if (event == kNoEvent) return;
  Item item;
  item.kind = ItemKind::kHostSync;
  item.wait = event;
  role_.items.push_back(item);
  host_work(stack_.sync_us);
}

namespace {
/// Ranks of one group along an axis.
std::int64_t members(const plan::Parallelism& p, workload::Axis axis) {
  using workload::Axis;
  switch (axis) {
    case Axis::kTp: return p.tp;
    case Axis::kCp: return p.cp;
    case Axis::kEp: return p.ep;
    case Axis::kEtp: return p.etp;
    case Axis::kExpertDp: return p.expert_dp();
    case Axis::kPp: return p.pp;
    case Axis::kDp: return p.dp_group();
    case Axis::kDpShard: return p.shard_group();
    case Axis::kDpReplicas: return p.replicas;
    case Axis::kEmbedding:
    case Axis::kMirror: return 2;
    case Axis::kModel: return p.tp * p.pp;
    case Axis::kWorld: return p.tp * p.dp_group() * p.pp;
    case Axis::kToHost:
    case Axis::kFromHost:
    case Axis::kHostUpdate:
    case Axis::kToDrives:
    case Axis::kFromDrives:
    case Axis::kSwapOut:
    case Axis::kSwapIn: return 1;
  }
  return 1;
}
}  // namespace

std::uint32_t RoleBuilder::collective(Stream stream, const Request& request, std::uint32_t after) {
  Item item;
  item.kind = ItemKind::kCollective;
  item.stream = stream;
  item.index = request_index(requests_, request);
  item.host_us = workload::with_host(request.axis)
                     ? stack_.forward_op_us
                     : stack_.collective_us + stack_.collective_rank_us * static_cast<double>(members(parallelism_, request.axis));
  return device(item, after);
}

std::uint32_t RoleBuilder::batch(Stream stream, std::vector<PointToPoint> members, std::uint32_t after) {
  if (members.empty()) return kNoEvent;
  const auto found = std::find(role_.batches.begin(), role_.batches.end(), members);
  Item item;
  item.kind = ItemKind::kBatch;
  item.stream = stream;
  item.index = static_cast<std::uint32_t>(found - role_.batches.begin());
  item.host_us = stack_.collective_us * static_cast<double>(members.size());
  if (found == role_.batches.end()) role_.batches.push_back(std::move(members));
  return device(item, after);
}

}  // namespace orrery::program
