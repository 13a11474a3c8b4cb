// orrery/schedule/1: the order lists of a pipeline that a user wrote.
#include "document/description.hpp"

namespace orrery::document {

const Type& schedule_type() {
  static const Type type = object(document_members("schedule", false, {
      member("placement", choice({{"looped"}, {"v"}, {"two_way"}}),
             "looped: chunk c of stage s is place c x pp + s of the model; v: two chunks, down the stages and back up; two_way: one chunk of the model per stage, each on "
             "two ranks, and half of the microbatches enter at either end")
          .otherwise("looped"),
      member("orders", array(array(text(), 1), 1, 1 << 20),
             "a list for each stage: every pass once, as F (forward), B (backward) or its halves I (gradients of activations) and W (of weights), then the microbatch, \".\" and "
             "the chunk unless 0, \"&\" where it runs as a pair with the next entry: \"F3\", \"I0.1\", \"F5.1&\"")
          .required(),
  }));
  return type;
}

}  // namespace orrery::document
