#pragma once
// What may be wrong with a cluster, each as overrides of its scenario.
#include <vector>

#include "orrery/document/document.hpp"
#include "orrery/search/diagnose.hpp"

namespace orrery::search {

/// Those that make sense on this resolved scenario for so many ranks; error and likelihood are not filled.
std::vector<Hypothesis> hypotheses(const document::Value& scenario, std::int64_t ranks);

}  // namespace orrery::search
