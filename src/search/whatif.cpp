// Many scenarios on several threads. Each thread takes the next index that nobody has; each answer goes to its own place, so the order
// in which threads finish reaches nothing.
#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <thread>

#include "orrery/base/assert.hpp"
#include "orrery/search/search.hpp"

namespace orrery::search {

void for_each(std::size_t count, int threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::vector<std::exception_ptr> broken(count);  // a bug of ours in one run must reach main, from whichever thread
  const auto take = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        broken[i] = std::current_exception();
      }
    }
  };
  const std::size_t helpers = std::min(count, static_cast<std::size_t>(std::max(threads, 1))) - (count == 0 ? 0 : 1);
  std::vector<std::jthread> pool;
  for (std::size_t t = 0; t < helpers; ++t) pool.emplace_back(take);
  take();
  pool.clear();  // joins
  for (const std::exception_ptr& e : broken)
    if (e) std::rethrow_exception(e);
}

std::vector<Result<Prediction>> predict_all(std::span<const document::Document> scenarios, const simulate::Options& options, int threads) {
  ORRERY_ASSERT(options.sink == nullptr, "one sink cannot hear several runs at once");
  std::vector<std::optional<Result<Prediction>>> answers(scenarios.size());
  for_each(scenarios.size(), threads, [&](std::size_t i) { answers[i] = predict(scenarios[i], options); });
  std::vector<Result<Prediction>> list;
  list.reserve(answers.size());
  for (auto& a : answers) list.push_back(std::move(*a));
  return list;
}

}  // namespace orrery::search
