// SPDX-License-Identifier: Apache-2.0
// Copies a dense channels-last result into a strided slice after a oneDNN convolution, split over threads by rows like
// the convolution.

#include "runtime/library/onednn/move.h"

#include <cstring>

namespace fusec::runtime::onednn {

std::optional<Move> move_to(const CallOperand& out, std::size_t offset) {
  const std::size_t rank = out.dims.size();
  if (rank > 4 || (out.strides[1] != 1 && out.dims[1] > 1)) return std::nullopt;
  const auto element = static_cast<int64_t>(size_of(out.dtype));
  Move move{offset, out.arg, out.dims[0], 1, out.dims[rank - 1], out.dims[1] * element};
  move.image = out.strides[0] * element;
  move.step = out.strides[rank - 1] * element;
  if (rank == 4) {
    move.height = out.dims[2];
    move.row = out.strides[2] * element;
  }
  return move;
}

void run(const Move& move, void* const* args, void* workspace, int threads) {
  const char* source = static_cast<const char*>(workspace) + move.offset;
  char* target = static_cast<char*>(args[move.arg]);
  parallel_for(threads, move.images * move.height, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const char* from = source + row * move.width * move.run_bytes;
      char* to = target + row / move.height * move.image + row % move.height * move.row;
      for (int64_t w = 0; w < move.width; ++w) {
        std::memcpy(to + w * move.step, from + w * move.run_bytes, static_cast<std::size_t>(move.run_bytes));
      }
    }
  });
}

}  // namespace fusec::runtime::onednn
