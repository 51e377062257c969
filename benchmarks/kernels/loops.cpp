// Times loops of the kernels; see library.py.

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "tnt/comm/kernel/kernels.hpp"
#include "tnt/comm/kernel/table.hpp"

namespace {

using namespace tnt::comm;

enum Kind : int { kCombine, kScale, kWiden, kNarrow, kReduce };

struct Loop {
  int kind;
  int is_baseline;  // or as chosen for this processor
  int dtype;
  int op;
  void* const* targets;
  std::size_t num_targets;
  const std::byte* const* sources;
  std::size_t num_sources;
  std::size_t count;
};

template <typename Function>
double nanoseconds_of(long repeats, Function&& function) {
  const auto begin = std::chrono::steady_clock::now();
  for (long i = 0; i < repeats; ++i) function();
  const std::chrono::duration<double, std::nano> all = std::chrono::steady_clock::now() - begin;
  return all.count() / static_cast<double>(repeats);
}

}  // namespace

/// Nanoseconds that one call takes, on average.
extern "C" __attribute__((visibility("default"))) double time_loop(const Loop* loop, long repeats) {
  const KernelTable& table = loop->is_baseline ? baseline_kernels() : kernels();
  void* const target = loop->targets[0];
  const void* const source = loop->sources[0];
  const std::size_t count = loop->count;
  switch (loop->kind) {
    case kCombine: {
      const auto combine = table.combine[loop->dtype][loop->op].to[loop->num_targets - 1];
      return nanoseconds_of(repeats,
                            [&] { combine(loop->targets, source, loop->sources[1], count); });
    }
    case kScale:
      return nanoseconds_of(repeats, [&] { table.scale[loop->dtype](target, source, count, 0.7); });
    case kWiden: {
      const auto* halves = static_cast<const std::uint16_t*>(source);
      return nanoseconds_of(
          repeats, [&] { table.widen[loop->dtype](static_cast<float*>(target), halves, count); });
    }
    case kNarrow: {
      const auto* floats = static_cast<const float*>(source);
      return nanoseconds_of(repeats, [&] {
        table.narrow[loop->dtype](static_cast<std::uint16_t*>(target), floats, count);
      });
    }
    default: {
      TreeReducer reducer(static_cast<DType>(loop->dtype), static_cast<ReduceOp>(loop->op),
                          SumTree(static_cast<int>(loop->num_sources)));
      return nanoseconds_of(
          repeats, [&] { reducer.reduce(target, loop->sources, loop->num_sources, count); });
    }
  }
}
