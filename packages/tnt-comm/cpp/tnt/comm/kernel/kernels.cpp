#include "tnt/comm/kernel/kernels.hpp"

#ifdef TNT_COMM_HAS_AVX2
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstring>
#include <utility>

#include "tnt/comm/kernel/table.hpp"

namespace tnt::comm {

TreeReducer::TreeReducer(DType dtype, ReduceOp op, SumTree tree)
    : dtype_(dtype),
      op_(op),
      tree_(std::move(tree)),
      current_(static_cast<std::size_t>(tree_.size())),
      // One block per partial result, and for 16-bit floats one more for the
      // end; a widened source takes a block of its own.
      scratch_(std::make_unique_for_overwrite<Block[]>(current_.size() + 1)) {}

void TreeReducer::reduce(void* dst, const std::byte* const* sources, std::size_t num_sources,
                         std::size_t count) {
  std::byte* const target = static_cast<std::byte*>(dst);
  reduce_to({&target, 1}, sources, num_sources, count);
}

void TreeReducer::reduce_to(std::span<std::byte* const> targets, const std::byte* const* sources,
                            std::size_t num_sources, std::size_t count) {
  const GradualUnderflow on_this_thread;
  const std::size_t stride = size_of(dtype_);
  // Two vectors are combined without a partial result.
  const bool has_partials = num_sources > 2 || is_half(dtype_);
  const std::size_t block = has_partials ? kBlockBytes / size_of(accumulator_of(dtype_)) : count;
  targets_.resize(targets.size());
  for (std::size_t begin = 0; begin < count; begin += block) {
    const std::size_t length = std::min(block, count - begin);
    for (std::size_t i = 0; i < num_sources; ++i) current_[i] = sources[i] + begin * stride;
    for (std::size_t i = 0; i < targets.size(); ++i) targets_[i] = targets[i] + begin * stride;
    if (is_half(dtype_)) {
      reduce_half_block(targets_, num_sources, length);
    } else {
      reduce_block(targets_, num_sources, length);
    }
  }
}

void TreeReducer::reduce_half_block(std::span<void* const> dsts, std::size_t num_sources,
                                    std::size_t count) {
  const auto format = index_of(dtype_);
  for (std::size_t i = 0; i < num_sources; ++i) {
    kernels().widen[format](reinterpret_cast<float*>(scratch(i)),
                            reinterpret_cast<const std::uint16_t*>(current_[i]), count);
    current_[i] = scratch(i);
  }
  void* const result = scratch(num_sources);
  reduce_block({&result, 1}, num_sources, count);
  for (void* dst : dsts) {
    kernels().narrow[format](static_cast<std::uint16_t*>(dst), static_cast<const float*>(result),
                             count);
  }
}

void TreeReducer::reduce_block(std::span<void* const> dsts, std::size_t num_sources,
                               std::size_t count) {
  const DType accumulator = accumulator_of(dtype_);
  const auto& combine = kernels().combine[index_of(accumulator)][index_of(op_)];
  const auto at_once = dsts.first(std::min(dsts.size(), KernelTable::kMaxTargets));
  const bool is_whole = num_sources == current_.size();
  std::size_t num_left = num_sources;
  for (std::size_t level = 0; num_left > 1; ++level) {
    const auto fold = is_whole ? static_cast<std::size_t>(tree_.folds()[level]) : num_sources;
    const std::size_t num_sums = num_left / fold;
    for (std::size_t i = 0; i < num_sums; ++i) {
      const std::byte* sum = current_[i * fold];
      for (std::size_t k = 1; k < fold; ++k) {
        // Only the very last combination writes to dsts, which may be among the sources. Block i
        // has been used up when sum i is written to it, or holds the sum's own beginning.
        const std::byte* next = current_[i * fold + k];
        if (num_sums == 1 && k == fold - 1) {
          combine.to[at_once.size() - 1](at_once.data(), sum, next, count);
        } else {
          void* const partial = scratch(i);
          combine.to[0](&partial, sum, next, count);
          sum = scratch(i);
        }
      }
      current_[i] = sum;
    }
    num_left = num_sums;
  }
  const std::size_t num_bytes = count * size_of(accumulator);
  const void* const result = num_sources == 1 ? current_[0] : dsts.front();
  for (void* dst : dsts.subspan(num_sources == 1 ? 0 : at_once.size())) {
    if (dst != result) std::memcpy(dst, result, num_bytes);
  }
}

#ifdef TNT_COMM_HAS_AVX2
namespace {

// Whether processor and kernel of the system have AVX2 and F16C. __builtin_cpu_supports() would say
// no where clang links the runtime of zig, which looks for no features.
bool has_avx2() {
  unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned int kNeeded = bit_OSXSAVE | bit_AVX | bit_F16C;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & kNeeded) != kNeeded) return false;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (ebx & bit_AVX2) == 0) return false;
  constexpr unsigned int kSavedRegisters = 0x6;  // those of SSE and of AVX
  asm volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
  return (eax & kSavedRegisters) == kSavedRegisters;
}

}  // namespace
#endif

const KernelTable& kernels() {
#ifdef TNT_COMM_HAS_AVX2
  static const KernelTable& chosen = has_avx2() ? avx2_kernels() : baseline_kernels();
  return chosen;
#else
  return baseline_kernels();
#endif
}

void require_scalable(DType dtype, double factor) {
  if (is_floating(dtype) || factor == 0.0 || factor == 1.0) return;
  throw UsageError("`scale` must be 0 or 1 for dtype ", name_of(dtype),
                   ", which has no fractions. Received: scale=", factor, ".");
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
