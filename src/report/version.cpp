#include "orrery/report/report.hpp"

namespace orrery::report {

std::string_view version() { return ORRERY_VERSION; }  // of the CMake project

}  // namespace orrery::report
