// SPDX-License-Identifier: Apache-2.0
// Models that do nothing but many ops of one class on each element, to tell how long these take.
#pragma once

#include <cstdint>
#include <vector>

#include "fusec/model.h"
#include "fusec/target.h"

namespace fusec::tool {

struct OpChain {
  Figure MachineModel::*figure = nullptr;
  Model model;       // inputs x and z, output y: f32[elements]
  double cost = 0;   // of the class, per element, in units of the op table
  double other = 0;  // of simple ops beside them
};

// So many rounds of ops; the first one is the chain of simple ops. A processor works on several elements at once where
// chains are short, and the difference of two lengths leaves out what loads and stores cost.
Result<std::vector<OpChain>> op_chains(int64_t elements, int rounds);
// One addition: what reading two numbers and writing one costs by itself.
Result<Model> empty_chain(int64_t elements);

}  // namespace fusec::tool
