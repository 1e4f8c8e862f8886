// SPDX-License-Identifier: Apache-2.0
// What a graph grows by. Each adds a node or a few and gives the last one, or an invalid id when it found no way.
#pragma once

#include "tests/fuzz/maker.h"

namespace fusec::fuzz {

struct Choice {
  double weight;
  ValueId (*grow)(Maker&);
};

ValueId scalar_node(Maker& m);
ValueId index_map_node(Maker& m);
ValueId reduction_node(Maker& m);
ValueId composite_node(Maker& m);
ValueId anchor_node(Maker& m);  // with a few element-wise nodes behind it
ValueId pattern(Maker& m);      // softmax, normalizations, spelled-out activations, heads of attention, ...

// A value of the pool or a new leaf with a rank in this range.
ValueId any_value(Maker& m, int least_rank = 0, int most_rank = 8);
ValueId float_value(Maker& m, int least_rank = 0, int most_rank = 8);

}  // namespace fusec::fuzz
