// SPDX-License-Identifier: Apache-2.0
// The loops of the plain library. args are those of LibraryOp::run; workspace has *_workspace() bytes, which depend on
// the thread count.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/library/interface/problem.h"

namespace fusec::runtime::plain {

std::size_t matmul_workspace(const Problem& problem, int threads);
void matmul(const Problem& problem, const std::vector<BoundEpilogue>& epilogues, void* const* args, void* workspace,
            int threads);

std::size_t conv_workspace(const Problem& problem, int threads);
void conv(const Problem& problem, const std::vector<BoundEpilogue>& epilogues, void* const* args, void* workspace,
          int threads);

void pool(const Problem& problem, const std::vector<BoundEpilogue>& epilogues, void* const* args, int threads);

}  // namespace fusec::runtime::plain
