#include "tnt/comm/collective/rma/partial_reducer.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "tnt/comm/kernel/table.hpp"

namespace tnt::comm {
namespace {

constexpr std::size_t kBlockElements = 2048;  // stays in the first-level cache

}  // namespace

PartialReducer::PartialReducer(DType dtype, ReduceOp op, std::size_t max_sources)
    : dtype_(dtype), reducer_(accumulator_of(dtype), op, max_sources), operands_(max_sources) {
  if (is_rounded()) widened_.assign(max_sources, std::vector<float>(kBlockElements));
}

void PartialReducer::reduce(std::byte* dst, const std::byte* const* sources,
                            std::size_t num_sources, std::size_t count) {
  if (!is_rounded()) {
    reducer_.reduce(dst, sources, num_sources, count);
    return;
  }
  const auto widen = kernels().widen[static_cast<std::size_t>(dtype_)];
  for (std::size_t begin = 0; begin < count; begin += kBlockElements) {
    const std::size_t length = std::min(kBlockElements, count - begin);
    for (std::size_t i = 0; i < num_sources; ++i) {
      const std::byte* source = sources[i] + begin * sizeof(std::uint16_t);
      widen(widened_[i].data(), reinterpret_cast<const std::uint16_t*>(source), length);
      operands_[i] = reinterpret_cast<const std::byte*>(widened_[i].data());
    }
    reducer_.reduce(dst + begin * sizeof(float), operands_.data(), num_sources, length);
  }
}

void PartialReducer::round(std::byte* dst, const std::byte* src, std::size_t count) const {
  if (count == 0) return;
  if (!is_rounded()) {
    std::memcpy(dst, src, count * size_of(dtype_));
    return;
  }
  kernels().narrow[static_cast<std::size_t>(dtype_)](reinterpret_cast<std::uint16_t*>(dst),
                                                     reinterpret_cast<const float*>(src), count);
}

}  // namespace tnt::comm
