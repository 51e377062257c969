#include "tnt/comm/kernel/pack.hpp"

#include <algorithm>
#include <cstring>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/text.hpp"
#include "tnt/comm/kernel/gradual_underflow.hpp"
#include "tnt/comm/kernel/table.hpp"

namespace tnt::comm {
namespace {

// Of the tables for 16-bit floats.
std::size_t index_of(DType narrow) {
  return narrow == DType::float16 ? 0 : 1;
}

}  // namespace

void require_scalable(DType dtype, double factor) {
  if (is_floating(dtype) || factor == 0.0 || factor == 1.0) return;
  throw UsageError(text("`scale` must be 0 or 1 for dtype ", name_of(dtype),
                        ", which has no fractions. Received: scale=", factor, "."));
}

void pack_scaled(void* dst, const void* src, std::size_t count, DType dtype, double factor) {
  if (count == 0) return;
  const std::size_t num_bytes = count * size_of(dtype);
  if (factor == 0.0) {
    std::memset(dst, 0, num_bytes);
  } else if (factor == 1.0) {
    std::memcpy(dst, src, num_bytes);
  } else {
    const GradualUnderflow on_this_thread;
    kernels().scale[static_cast<std::size_t>(dtype)](dst, src, count, factor);
  }
}

void pack_narrowed(void* dst, const void* src, std::size_t count, DType narrow, double factor) {
  if (count == 0) return;
  auto* target = static_cast<std::uint16_t*>(dst);
  const auto* source = static_cast<const float*>(src);
  if (factor == 0.0) {
    std::memset(dst, 0, count * sizeof *target);
  } else if (factor == 1.0) {
    kernels().narrow[index_of(narrow)](target, source, count);
  } else {
    const GradualUnderflow on_this_thread;
    kernels().scale_narrow[index_of(narrow)](target, source, count, static_cast<float>(factor));
  }
}

void unpack_widened(void* dst, const void* src, std::size_t count, DType narrow) {
  kernels().widen[index_of(narrow)](static_cast<float*>(dst),
                                    static_cast<const std::uint16_t*>(src), count);
}

void stream_copy(void* dst, const void* src, std::size_t num_bytes) {
  if (num_bytes > 0) kernels().stream(dst, src, num_bytes);
}

}  // namespace tnt::comm
