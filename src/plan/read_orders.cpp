// An entry is a word: F (forward), B (backward), I (gradients of the activations) or W (gradients of the weights), the microbatch, "." and
// the chunk where it is not 0, and "&" where it runs as a pair with the next entry: "F3", "I0.1", "F5.1&".
#include "read_orders.hpp"

#include <charconv>
#include <fmt/format.h>
#include <optional>

namespace orrery::plan {

namespace {

using document::Value;

std::optional<std::int32_t> take_number(std::string_view& text) {
  std::int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || end == text.data() || text.front() == '-') return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

std::optional<ScheduleEntry> entry_of(std::string_view text) {
  ScheduleEntry e;
  constexpr std::string_view kLetters = "FBIW";  // in the order of Pass
  if (text.empty() || kLetters.find(text.front()) == std::string_view::npos) return std::nullopt;
  e.pass = static_cast<Pass>(kLetters.find(text.front()));
  text.remove_prefix(1);
  const auto microbatch = take_number(text);
  if (!microbatch) return std::nullopt;
  e.microbatch = *microbatch;
  if (!text.empty() && text.front() == '.') {
    text.remove_prefix(1);
    const auto chunk = take_number(text);
    if (!chunk) return std::nullopt;
    e.chunk = *chunk;
  }
  if (text == "&") {
    e.with_next = true;
    text = {};
  }
  return text.empty() ? std::optional(e) : std::nullopt;
}

}  // namespace

Placement placement_of(const Value& schedule) {
  for (const Placement p : {Placement::kV, Placement::kTwoWay})
    if (schedule.at("placement").is_string() && schedule.at("placement").as_string() == to_string(p)) return p;
  return Placement::kLooped;
}

Result<std::vector<std::vector<ScheduleEntry>>> read_orders(const Value& schedule, const std::string& file, const std::string& pointer, const Parallelism& p,
                                                            std::int64_t microbatches) {
  constexpr std::size_t kMost = 20;
  Diagnostics problems;
  const auto problem = [&](std::string at, std::string text) {
    if (problems.size() < kMost) problems.push_back({file, pointer + "/orders" + at, std::move(text)});
  };
  const Value::Array& lists = schedule.at("orders").items();
  if (static_cast<std::int64_t>(lists.size()) != p.pp) problem("", fmt::format("{} lists given where pp {} needs one for each stage", lists.size(), p.pp));
  const PipelineShape shape = shape_of(p, microbatches);
  if (p.placement == Placement::kTwoWay && microbatches % 2 != 0) problem("", fmt::format("two_way sends half of the microbatches from either end, but there are {}", microbatches));
  if (!problems.empty()) return fail(std::move(problems));

  // Every pass once: so many entries, or half as many again where all of them are split.
  const std::int64_t passes = shape.chunks * microbatches / (p.placement == Placement::kTwoWay ? 2 : 1);
  std::vector<std::vector<ScheduleEntry>> orders;
  for (std::size_t s = 0; s < lists.size(); ++s) {
    const Value::Array& words = lists[s].items();
    std::vector<ScheduleEntry>& order = orders.emplace_back();
    if (const auto n = static_cast<std::int64_t>(words.size()); n < 2 * passes || n > 3 * passes)
      problem(fmt::format("/{}", s), fmt::format("{} entries given where {} microbatches and {} chunks need {}, and {} where each backward pass is split", n, microbatches, shape.chunks,
                                                 2 * passes, 3 * passes));
    for (std::size_t k = 0; k < words.size(); ++k) {
      if (const auto e = entry_of(words[k].as_string())) {
        order.push_back(*e);
      } else {
        problem(fmt::format("/{}/{}", s, k), "is no entry; write F, B, I or W, the microbatch, \".\" and the chunk unless 0, \"&\" where it is a pair with the next: \"F3\", \"I0.1\"");
      }
    }
  }
  if (!problems.empty()) return fail(std::move(problems));
  for (OrderProblem& found : check_orders(shape, orders)) {
    const bool inside = found.entry < static_cast<std::int64_t>(orders[static_cast<std::size_t>(found.stage)].size());
    problem(inside ? fmt::format("/{}/{}", found.stage, found.entry) : fmt::format("/{}", found.stage), std::move(found.text));
  }
  if (!problems.empty()) return fail(std::move(problems));
  return orders;
}

}  // namespace orrery::plan
