#include "measure/plugin/cuda_collective.hpp"

#include <algorithm>

namespace orrery::measure {
namespace {

using calibration::Point;

constexpr int kWarmUp = 3, kInner = 5;  ///< operations between two events: nccl-tests times twenty in a row

}  // namespace

struct Collectives::Member {
  explicit Member(int d) : device(d) {
    check(cudaSetDevice(device), "choosing a device");
    stream = std::make_unique<Stream>();
    begin = std::make_unique<Event>();
    end = std::make_unique<Event>();
  }
  ~Member() {
    if (communicator != nullptr) ncclCommDestroy(communicator);
    cudaSetDevice(device);
    send = DeviceMemory();
    receive = DeviceMemory();
    end.reset();
    begin.reset();
    stream.reset();
  }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;
  int device = 0, rank = 0;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Event> begin, end;
  ncclComm_t communicator = nullptr;
  DeviceMemory send, receive;
};

Collectives::Collectives(std::vector<int> devices, Ranks* ranks) : ranks_(ranks) {
  for (const int d : devices) members_.push_back(std::make_unique<Member>(d));
  if (ranks_ != nullptr) {
    ncclUniqueId id{};
    if (ranks_->rank() == 0) check(ncclGetUniqueId(&id), "making a group of processes");
    ranks_->broadcast(&id, sizeof id);
    Member& m = *members_.front();
    check(cudaSetDevice(m.device), "choosing a device");
    check(ncclCommInitRank(&m.communicator, ranks_->size(), id, ranks_->rank()), "joining the group of processes");
    m.rank = ranks_->rank();
    return;
  }
  std::vector<ncclComm_t> all(members_.size());
  check(ncclCommInitAll(all.data(), static_cast<int>(all.size()), devices.data()), "making a group of devices");
  for (std::size_t i = 0; i < members_.size(); ++i) {
    members_[i]->communicator = all[i];
    members_[i]->rank = static_cast<int>(i);
  }
}
Collectives::~Collectives() = default;
int Collectives::size() const { return ranks_ != nullptr ? ranks_->size() : static_cast<int>(members_.size()); }
int Collectives::nodes() const { return ranks_ != nullptr ? ranks_->nodes() : 1; }

void Collectives::enqueue(const Point& p) {
  const auto ranks = static_cast<std::size_t>(size());
  const std::size_t count = static_cast<std::size_t>(p.bytes) / sizeof(float), share = count / ranks;
  const std::string during = "queueing " + p.collective;
  check(ncclGroupStart(), during);
  for (const auto& m : members_) {
    const cudaStream_t stream = *m->stream;
    ncclResult_t result = ncclSuccess;
    if (p.collective == "all_reduce") {
      result = ncclAllReduce(m->send.at(), m->receive.at(), count, ncclFloat, ncclSum, m->communicator, stream);
    } else if (p.collective == "all_gather") {
      result = ncclAllGather(m->send.at(), m->receive.at(), share, ncclFloat, m->communicator, stream);
    } else if (p.collective == "reduce_scatter") {
      result = ncclReduceScatter(m->send.at(), m->receive.at(), share, ncclFloat, ncclSum, m->communicator, stream);
    } else if (p.collective == "all_to_all") {
      for (std::size_t to = 0; to < ranks && result == ncclSuccess; ++to) {
        result = ncclSend(m->send.floats(to * share), share, ncclFloat, static_cast<int>(to), m->communicator, stream);
        if (result == ncclSuccess) result = ncclRecv(m->receive.floats(to * share), share, ncclFloat, static_cast<int>(to), m->communicator, stream);
      }
    } else {  // send_recv: to the next, from the one before, as nccl-tests does
      const int n = size(), next = (m->rank + 1) % n, before = (m->rank + n - 1) % n;
      result = ncclSend(m->send.at(), count, ncclFloat, next, m->communicator, stream);
      if (result == ncclSuccess) result = ncclRecv(m->receive.at(), count, ncclFloat, before, m->communicator, stream);
    }
    check(result, during);
  }
  check(ncclGroupEnd(), during);
}

void Collectives::hold_against(const Point& p) {
  const auto ranks = static_cast<std::size_t>(size());
  const std::size_t count = static_cast<std::size_t>(p.bytes) / sizeof(float), share = count / ranks;
  const auto n = static_cast<float>(ranks);
  const float sum = n * (n + 1) / 2;
  bool right = true;
  for (const auto& m : members_) {
    check(cudaSetDevice(m->device), "choosing a device");
    check(cudaStreamSynchronize(*m->stream), "running " + p.collective);
    float first = 0, last = 0;
    const std::size_t end = (p.collective == "reduce_scatter" ? share : count) - 1;
    check(cudaMemcpy(&first, m->receive.at(), sizeof first, cudaMemcpyDeviceToHost), "reading the result");
    check(cudaMemcpy(&last, m->receive.floats(end), sizeof last, cudaMemcpyDeviceToHost), "reading the result");
    if (p.collective == "all_reduce" || p.collective == "reduce_scatter") right = right && first == sum && last == sum;
    else if (p.collective == "send_recv") right = right && last == static_cast<float>((m->rank + size() - 1) % size() + 1);
    else right = right && first == 1 && last == n;
  }
  if (ranks_ != nullptr) right = ranks_->greatest(right ? 0 : 1) == 0;  // all go on, or none
  if (!right) throw Failure{"the result is wrong"};
}

std::vector<double> Collectives::time(const Point& p, int repetitions) {
  const auto bytes = static_cast<std::size_t>(p.bytes);
  for (const auto& m : members_) {
    check(cudaSetDevice(m->device), "choosing a device");
    m->send = DeviceMemory(bytes);
    m->receive = DeviceMemory(bytes);
    const std::vector<float> mine(bytes / sizeof(float), static_cast<float>(m->rank + 1));
    check(cudaMemcpy(m->send.at(), mine.data(), bytes, cudaMemcpyHostToDevice), "filling the buffers");
  }
  enqueue(p);
  hold_against(p);
  std::vector<double> out;
  for (int r = -kWarmUp; r < repetitions; ++r) {
    for (const auto& m : members_) {
      check(cudaSetDevice(m->device), "choosing a device");
      check(cudaStreamSynchronize(*m->stream), "running " + p.collective);
    }
    if (ranks_ != nullptr) ranks_->barrier();
    for (const auto& m : members_) {
      check(cudaSetDevice(m->device), "choosing a device");
      check(cudaEventRecord(*m->begin, *m->stream), "timing");
    }
    for (int i = 0; i < kInner; ++i) enqueue(p);
    double slowest = 0;
    for (const auto& m : members_) {
      check(cudaSetDevice(m->device), "choosing a device");
      check(cudaEventRecord(*m->end, *m->stream), "timing");
    }
    for (const auto& m : members_) {
      check(cudaEventSynchronize(*m->end), "running " + p.collective);
      float ms = 0;
      check(cudaEventElapsedTime(&ms, *m->begin, *m->end), "timing");
      slowest = std::max(slowest, 1e3 * static_cast<double>(ms) / kInner);
    }
    if (ranks_ != nullptr) slowest = ranks_->greatest(slowest);
    if (r >= 0) out.push_back(std::max(1e-3, slowest));
  }
  for (const auto& m : members_) {
    check(cudaSetDevice(m->device), "choosing a device");
    m->send = DeviceMemory();
    m->receive = DeviceMemory();
  }
  return out;
}

}  // namespace orrery::measure
