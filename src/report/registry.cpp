// The formats of a report: one file and one line each.
#include <array>

#include "orrery/report/report.hpp"

namespace orrery::report {

namespace {
std::string render_json(const Subject& subject) { return document::dump(json(subject)) + "\n"; }
std::string render_table(const Subject& subject) { return table(subject); }

constexpr std::array kFormats = {
    Format{"json", render_json},
    Format{"table", render_table},
    Format{"html", nullptr},
    Format{"openmetrics", nullptr},
};
}  // namespace

std::span<const Format> formats() { return kFormats; }

}  // namespace orrery::report
