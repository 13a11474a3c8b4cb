#pragma once
#include <string>
#include <string_view>

#include "orrery/measure/import.hpp"

namespace orrery::measure {

/// NVIDIA's nvbandwidth, its text output.
bool is_nvbandwidth(std::string_view text);
Result<Imported> import_nvbandwidth(std::string_view text, const std::string& file, const ImportOptions& options);

}  // namespace orrery::measure
