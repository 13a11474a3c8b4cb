#pragma once
// nccl-tests' own JSON (option -J): what the log says, as a document.
#include <string>

#include "orrery/document/value.hpp"
#include "orrery/measure/import.hpp"

namespace orrery::measure {

/// Whether a document is such a file: rows with out_of_place results.
bool is_nccl_json(const document::Value& value);
Result<Imported> import_nccl_json(const document::Value& value, const std::string& file, const ImportOptions& options);

}  // namespace orrery::measure
