// The kernels for GPUs. `python tools/write_kernels.py` compiles them to kernels.ptx, which is part
// of the library: neither who builds it nor who uses it needs CUDA's tools.
//
// Each thread takes elements that are a whole grid apart, in groups of 16 bytes where that is
// possible. Sources are read before targets are written, which may be among them.

#include "tnt/comm/device/arithmetic.hpp"
#include "tnt/comm/device/folding.hpp"
#include "tnt/comm/device/kernel_arguments.hpp"

namespace tnt::comm::device {
namespace kernels {  // with names that are the same wherever it is compiled

template <typename Format>
constexpr int kGroup = static_cast<int>(group_size(sizeof(typename Format::Stored)));

// Elements that are read or written 16 bytes at a time.
template <typename Stored, int kCount>
union Groups {
  static constexpr int kNumWords = kCount * sizeof(Stored) / 16;
  __device__ Groups() {}
  uint4 words[kNumWords];
  Stored elements[kCount];
};

// `kCount` elements from `index` on; more than one are whole groups.
template <typename Stored, int kCount>
__device__ __forceinline__ void load(Stored (&elements)[kCount], std::uint64_t address,
                                     std::uint64_t index) {
  const Stored* from = reinterpret_cast<const Stored*>(address) + index;
  if constexpr (kCount == 1) {
    elements[0] = *from;
  } else {
    Groups<Stored, kCount> groups;
#pragma unroll
    for (int i = 0; i < groups.kNumWords; ++i) groups.words[i] = reinterpret_cast<const uint4*>(from)[i];
#pragma unroll
    for (int k = 0; k < kCount; ++k) elements[k] = groups.elements[k];
  }
}

template <typename Stored, int kCount>
__device__ __forceinline__ void store(const Stored (&elements)[kCount], std::uint64_t address,
                                      std::uint64_t index) {
  Stored* to = reinterpret_cast<Stored*>(address) + index;
  if constexpr (kCount == 1) {
    *to = elements[0];
  } else {
    Groups<Stored, kCount> groups;
#pragma unroll
    for (int k = 0; k < kCount; ++k) groups.elements[k] = elements[k];
    // The compiler would split a plain assignment in a loop over targets.
#pragma unroll
    for (int i = 0; i < groups.kNumWords; ++i) {
      __stwb(reinterpret_cast<uint4*>(to) + i, groups.words[i]);
    }
  }
}

template <typename Format, int kCount>
__device__ __forceinline__ void load_wide(typename Format::Wide (&values)[kCount],
                                          std::uint64_t address, std::uint64_t index) {
  typename Format::Stored elements[kCount];
  load(elements, address, index);
#pragma unroll
  for (int k = 0; k < kCount; ++k) values[k] = Format::widen(elements[k]);
}

// Calls work.run<k>(index) for all elements, `kAtOnce` at a time where that is possible.
template <int kAtOnce, typename Work>
__device__ __forceinline__ void for_all(const Extent& extent, Work work) {
  const std::uint64_t first = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  const std::uint64_t num_groups = (extent.count - extent.num_single) / kAtOnce;
  for (std::uint64_t i = first; i < num_groups; i += stride) {
    work.template run<kAtOnce>(extent.num_single + i * kAtOnce);
  }
  // Those before the groups, and then those behind.
  const std::uint64_t num_others = extent.count - num_groups * kAtOnce;
  for (std::uint64_t i = first; i < num_others; i += stride) {
    work.template run<1>(i < extent.num_single ? i : i + num_groups * kAtOnce);
  }
}

// As processors give it where a NaN comes of it; apart, since that is rare.
template <typename Format>
__device__ __noinline__ typename Format::Wide careful_sum(const SumArguments& arguments,
                                                          std::uint64_t index) {
  using Wide = typename Format::Wide;
  const CarefulAddition<Wide> plus{static_cast<Wide>(arguments.invalid)};
  Folding<Wide, 1> folding(arguments.folds);
  Wide value[1] = {};
  for (std::uint32_t i = 0; i < arguments.num_sources; ++i) {
    load_wide<Format>(value, arguments.sources[i], index);
    folding.take(value, plus);
  }
  return value[0];
}

// `kSources`: in pairs; 0: as many as there are, in any order.
template <typename Format, int kSources>
struct Sum {
  using Wide = typename Format::Wide;
  const SumArguments& arguments;

  template <int kCount>
  __device__ __forceinline__ void add(Wide (&sums)[kCount], std::uint64_t index) const {
    if constexpr (kSources > 0) {
      Wide values[kSources][kCount];
#pragma unroll
      for (int i = 0; i < kSources; ++i) {
        load_wide<Format>(values[i], arguments.sources[i], index);
      }
      add_pairs<kSources>(values);
#pragma unroll
      for (int k = 0; k < kCount; ++k) sums[k] = values[0][k];
    } else {
      Folding<Wide, kCount> folding(arguments.folds);
      for (std::uint32_t i = 0; i < arguments.num_sources; ++i) {
        load_wide<Format>(sums, arguments.sources[i], index);
        folding.take(sums, PlainAddition<Wide>());
      }
    }
  }

  template <int kCount>
  __device__ __forceinline__ void run(std::uint64_t index) const {
    Wide sums[kCount];
    add(sums, index);
    typename Format::Stored elements[kCount];
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if (is_nan(sums[k])) sums[k] = careful_sum<Format>(arguments, index + k);
      elements[k] = Format::narrow(sums[k]);
    }
    for (std::uint32_t i = 0; i < arguments.num_targets; ++i) {
      store(elements, arguments.targets[i], index);
    }
  }
};

// to = narrow(factor * from). Without `kIsScaled`, to = narrow(from).
template <typename From, typename To, bool kIsScaled>
struct Map {
  using Wide = typename From::Wide;
  const MapArguments& arguments;

  template <int kCount>
  __device__ __forceinline__ void run(std::uint64_t index) const {
    Wide values[kCount];
    load_wide<From>(values, arguments.from, index);
    typename To::Stored elements[kCount];
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if constexpr (kIsScaled) {
        values[k] = multiply(static_cast<Wide>(arguments.factor), values[k],
                             static_cast<Wide>(arguments.invalid));
      }
      elements[k] = To::narrow(values[k]);
    }
    store(elements, arguments.to, index);
  }
};

template <typename Format, int kSources>
__device__ __forceinline__ void sum(const SumArguments& arguments) {
  for_all<kGroup<Format>>(arguments.extent, Sum<Format, kSources>{arguments});
}

// In groups of the narrower elements.
template <typename From, typename To, bool kIsScaled>
__device__ __forceinline__ void map(const MapArguments& arguments) {
  constexpr int kAtOnce = kGroup<From> > kGroup<To> ? kGroup<From> : kGroup<To>;
  for_all<kAtOnce>(arguments.extent, Map<From, To, kIsScaled>{arguments});
}

}  // namespace kernels

#define TNT_KERNEL(name, Arguments, ...)                                     \
  extern "C" __global__ void name(const __grid_constant__ Arguments given) { \
    kernels::__VA_ARGS__(given);                                             \
  }
#define TNT_SUMS(name, Format)                           \
  TNT_KERNEL(sum_2_##name, SumArguments, sum<Format, 2>) \
  TNT_KERNEL(sum_4_##name, SumArguments, sum<Format, 4>) \
  TNT_KERNEL(sum_8_##name, SumArguments, sum<Format, 8>) \
  TNT_KERNEL(sum_any_##name, SumArguments, sum<Format, 0>)
#define TNT_SCALE(name, Format) TNT_KERNEL(scale_##name, MapArguments, map<Format, Format, true>)
#define TNT_WIRE(name, Format)                                        \
  TNT_KERNEL(narrow_##name, MapArguments, map<Float32, Format, true>) \
  TNT_KERNEL(widen_##name, MapArguments, map<Format, Float32, false>)

TNT_SUMS(float16, Float16)
TNT_SUMS(bfloat16, Bfloat16)
TNT_SUMS(float32, Float32)
TNT_SUMS(float64, Float64)
TNT_SCALE(float16, Float16)
TNT_SCALE(bfloat16, Bfloat16)
TNT_SCALE(float32, Float32)
TNT_SCALE(float64, Float64)
TNT_WIRE(float16, Float16)
TNT_WIRE(bfloat16, Bfloat16)

}  // namespace tnt::comm::device
