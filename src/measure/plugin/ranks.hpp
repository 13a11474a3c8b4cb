#pragma once
// Processes that a launcher started together: what of MPI a measurement needs. Header only: the library that links MPI is loaded where it is asked
// for, so that no other command waits for it or needs it.
#include <cstddef>
#include <string>

namespace orrery::measure {

class Ranks {
 public:
  virtual ~Ranks() = default;  ///< leaves the group: every rank does
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual int nodes() const = 0;       ///< machines
  [[nodiscard]] virtual int local_rank() const = 0;  ///< on this machine
  [[nodiscard]] virtual std::string library() const = 0;
  virtual void barrier() = 0;
  virtual void broadcast(void* data, std::size_t bytes) = 0;  ///< from rank 0
  virtual double greatest(double mine) = 0;
  /// "all_reduce" (sum), "all_gather", "reduce_scatter", "all_to_all" or "send_recv" (to the next rank, from the one before) of floats, on buffers of `count`
  /// floats: what every rank ends with of an all-gather, what it begins with of the others. Requires a count that divides by the ranks. False: MPI refused.
  virtual bool collective(const std::string& kind, const float* send, float* receive, std::size_t count) = 0;
};

using MakeRanks = Ranks* (*)();  ///< entry of the MPI library: null where the group could not be made

}  // namespace orrery::measure
