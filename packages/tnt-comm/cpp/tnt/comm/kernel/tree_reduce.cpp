#include "tnt/comm/kernel/tree_reduce.hpp"

#include <algorithm>
#include <cstring>

#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/kernel/table.hpp"

namespace tnt::comm {
namespace {

bool is_half(DType dtype) {
  return dtype == DType::float16 || dtype == DType::bfloat16;
}

// How a block is combined: the type of the arithmetic, not of the memory.
DType accumulator_of(DType dtype) {
  return is_half(dtype) ? DType::float32 : dtype;
}

}  // namespace

TreeReducer::TreeReducer(DType dtype, ReduceOp op, std::size_t max_sources)
    : dtype_(dtype),
      op_(op),
      current_(max_sources),
      // One block per partial result, and for 16-bit floats one more for the
      // end; a widened source takes a block of its own.
      scratch_(std::make_unique_for_overwrite<std::byte[]>((max_sources + 1) * kBlockBytes)) {}

void TreeReducer::reduce(void* dst, const std::byte* const* sources, std::size_t num_sources,
                         std::size_t count) {
  std::byte* const target = static_cast<std::byte*>(dst);
  reduce_to({&target, 1}, sources, num_sources, count);
}

void TreeReducer::reduce_to(std::span<std::byte* const> targets, const std::byte* const* sources,
                            std::size_t num_sources, std::size_t count) {
  const std::size_t stride = size_of(dtype_);
  const std::size_t block = kBlockBytes / size_of(accumulator_of(dtype_));
  for (std::size_t begin = 0; begin < count; begin += block) {
    const std::size_t length = std::min(block, count - begin);
    for (std::size_t i = 0; i < num_sources; ++i) current_[i] = sources[i] + begin * stride;
    std::byte* first = targets.front() + begin * stride;
    if (is_half(dtype_)) {
      reduce_half_block(first, num_sources, length);
    } else {
      reduce_block(first, num_sources, length);
    }
    for (std::byte* other : targets.subspan(1)) {
      std::memcpy(other + begin * stride, first, length * stride);
    }
  }
}

void TreeReducer::reduce_half_block(std::byte* dst, std::size_t num_sources, std::size_t count) {
  const auto format = static_cast<std::size_t>(dtype_);
  for (std::size_t i = 0; i < num_sources; ++i) {
    kernels().widen[format](reinterpret_cast<float*>(scratch(i)),
                            reinterpret_cast<const std::uint16_t*>(current_[i]), count);
    current_[i] = scratch(i);
  }
  std::byte* result = scratch(num_sources);
  reduce_block(result, num_sources, count);
  kernels().narrow[format](reinterpret_cast<std::uint16_t*>(dst),
                           reinterpret_cast<const float*>(result), count);
}

void TreeReducer::reduce_block(std::byte* dst, std::size_t num_sources, std::size_t count) {
  const DType accumulator = accumulator_of(dtype_);
  const auto combine =
      kernels().combine[static_cast<std::size_t>(accumulator)][static_cast<std::size_t>(op_)];
  std::size_t num_left = num_sources;
  while (num_left > 1) {
    const std::size_t fold = smallest_prime_factor(num_left);
    const std::size_t num_sums = num_left / fold;
    for (std::size_t i = 0; i < num_sums; ++i) {
      const std::byte* sum = current_[i * fold];
      for (std::size_t k = 1; k < fold; ++k) {
        // Only the very last combination writes to dst, which may be one of
        // the sources. Block i has been used up when sum i is written to it,
        // or holds the sum's own beginning.
        const bool is_last = num_sums == 1 && k == fold - 1;
        std::byte* target = is_last ? dst : scratch(i);
        combine(target, sum, current_[i * fold + k], count);
        sum = target;
      }
      current_[i] = sum;
    }
    num_left = num_sums;
  }
  if (num_sources == 1 && dst != current_[0]) {
    std::memcpy(dst, current_[0], count * size_of(accumulator));
  }
}

}  // namespace tnt::comm
