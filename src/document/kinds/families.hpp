#pragma once
// The families of orrery/model/1 beside the decoder transformer: the members that each has.
#include <vector>

#include "document/description.hpp"

namespace orrery::document {

std::vector<Variant> other_families();
/// An encoder of images before a decoder, which has the members of a decoder transformer.
Variant multimodal_family(std::vector<Member> decoder);

}  // namespace orrery::document
