#include "tnt/comm/kernel/pack.hpp"

#include <algorithm>
#include <cstring>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/kernel/table.hpp"

namespace tnt::comm {

const KernelTable& kernels() {
#ifdef TNT_COMM_HAS_AVX2
  static const KernelTable& chosen =
      __builtin_cpu_supports("avx2") ? avx2_kernels() : baseline_kernels();
  return chosen;
#else
  return baseline_kernels();
#endif
}

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
    kernels().scale[index_of(dtype)](dst, src, count, factor);
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
