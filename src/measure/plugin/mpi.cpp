// MPI behind the interface of ranks.
#include <mpi.h>

#include <climits>

#include "measure/plugin/ranks.hpp"

namespace orrery::measure {
namespace {

class MpiRanks : public Ranks {
 public:
  MpiRanks() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm machine = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &machine);
    MPI_Comm_rank(machine, &local_);
    MPI_Comm_free(&machine);
    const int first = local_ == 0 ? 1 : 0;
    MPI_Allreduce(&first, &nodes_, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  }
  ~MpiRanks() override { MPI_Finalize(); }
  MpiRanks(const MpiRanks&) = delete;
  MpiRanks& operator=(const MpiRanks&) = delete;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] int nodes() const override { return nodes_; }
  [[nodiscard]] int local_rank() const override { return local_; }
  [[nodiscard]] std::string library() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(text, &length);
    const std::string all(text, static_cast<std::size_t>(length));
    return all.substr(0, all.find(','));
  }
  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }
  void broadcast(void* data, std::size_t bytes) override {
    // In pieces that a count of int holds.
    char* at = static_cast<char*>(data);
    while (bytes > 0) {
      const std::size_t piece = bytes < INT_MAX ? bytes : INT_MAX;
      MPI_Bcast(at, static_cast<int>(piece), MPI_BYTE, 0, MPI_COMM_WORLD);
      at += piece;
      bytes -= piece;
    }
  }
  double greatest(double mine) override {
    double all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
  }

  bool collective(const std::string& kind, const float* send, float* receive, std::size_t count) override {
    if (count > INT_MAX) return false;
    const int n = static_cast<int>(count), share = n / size_;
    if (kind == "all_reduce") return MPI_Allreduce(send, receive, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS;
    if (kind == "all_gather") return MPI_Allgather(send, share, MPI_FLOAT, receive, share, MPI_FLOAT, MPI_COMM_WORLD) == MPI_SUCCESS;
    if (kind == "reduce_scatter") return MPI_Reduce_scatter_block(send, receive, share, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS;
    if (kind == "all_to_all") return MPI_Alltoall(send, share, MPI_FLOAT, receive, share, MPI_FLOAT, MPI_COMM_WORLD) == MPI_SUCCESS;
    if (kind != "send_recv") return false;
    const int to = (rank_ + 1) % size_, from = (rank_ + size_ - 1) % size_;
    return MPI_Sendrecv(send, n, MPI_FLOAT, to, 0, receive, n, MPI_FLOAT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS;
  }

 private:
  int rank_ = 0, size_ = 1, nodes_ = 0, local_ = 0;
};

}  // namespace
}  // namespace orrery::measure

extern "C" orrery::measure::Ranks* orrery_ranks() {
  if (MPI_Init(nullptr, nullptr) != MPI_SUCCESS) return nullptr;
  return new orrery::measure::MpiRanks;
}
