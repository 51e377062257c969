// Work for our kernels.

#include <algorithm>
#include <limits>

#include "tnt/comm/device/context.hpp"
#include "tnt/comm/device/device.hpp"
#include "tnt/comm/device/kernel_arguments.hpp"
#include "tnt/comm/kernel/kernels.hpp"

namespace tnt::comm {
namespace {

static_assert(kMostDeviceSources == device::kMostArrays);

// Pointers to elements of so many bytes, which are read or written together.
struct Elements {
  std::span<const DevicePointer> arrays;
  std::size_t element_bytes;
};

// How many elements come before the first group that begins at a multiple of 16 bytes everywhere;
// all, if none does.
std::uint64_t num_single(std::initializer_list<Elements> all, std::uint64_t group,
                         std::uint64_t count) {
  for (std::uint64_t i = 0; i < group; ++i) {
    const bool is_aligned = std::ranges::all_of(all, [i](const Elements& elements) {
      return std::ranges::all_of(elements.arrays, [&](DevicePointer array) {
        return (array + i * elements.element_bytes) % 16 == 0;
      });
    });
    if (is_aligned) return std::min(i, count);
  }
  return count;
}

template <typename Float>
std::uint64_t bits_of(Float value) {
  if constexpr (sizeof value == 8) return __builtin_bit_cast(std::uint64_t, value);
  return __builtin_bit_cast(std::uint32_t, static_cast<float>(value));
}

// The sign of this NaN depends on the processor.
std::uint64_t invalid_of(DType accumulator) {
  volatile float single = std::numeric_limits<float>::infinity();
  volatile double twice = std::numeric_limits<double>::infinity();
  return accumulator == DType::float64 ? bits_of(twice - twice) : bits_of(single - single);
}

std::uint64_t bits_of_factor(double factor, DType accumulator) {
  return accumulator == DType::float64 ? bits_of(factor) : bits_of(static_cast<float>(factor));
}

device::Folds folds_of(const SumTree& tree, std::size_t num_sources) {
  device::Folds folds;
  std::ranges::fill(folds.of_level, device::Folds::kNoFold);
  if (num_sources == static_cast<std::size_t>(tree.size())) {
    std::ranges::transform(tree.folds(), folds.of_level,
                           [](int fold) { return static_cast<std::uint32_t>(fold); });
  } else if (num_sources > 1) {
    folds.of_level[0] = static_cast<std::uint32_t>(num_sources);
  }
  return folds;
}

// Which of the kernels for 2, 4, 8 and any number of sources.
std::size_t index_of_sum(const device::SumArguments& arguments) {
  constexpr std::size_t kAny = 3;
  std::size_t num_levels = 0;
  std::uint32_t num_sources = 1;
  for (; arguments.folds.of_level[num_levels] == 2; ++num_levels) num_sources *= 2;
  const bool is_in_pairs = num_levels > 0 && num_sources == arguments.num_sources;
  return is_in_pairs ? std::min(num_levels - 1, kAny) : kAny;
}

template <typename Arguments>
void launch(const cuda::PrimaryContext& context, cuda::Kernel kernel, void* stream,
            std::uint64_t group, Arguments arguments) {
  constexpr unsigned kThreads = 256;
  constexpr unsigned kBlocksOfProcessor = 8;
  const device::Extent& extent = arguments.extent;
  const std::uint64_t num_items = std::max(extent.count / group, extent.num_single) + 1;
  const std::uint64_t most = std::uint64_t{context.num_processors()} * kBlocksOfProcessor;
  const auto num_blocks =
      static_cast<unsigned>(std::min((num_items + kThreads - 1) / kThreads, most));
  void* given[] = {&arguments};
  context.call(context.driver().launch_kernel, kernel, num_blocks, 1U, 1U, kThreads, 1U, 1U, 0U,
               static_cast<cuda::Stream>(stream), static_cast<void**>(given),
               static_cast<void**>(nullptr));
}

// Of `from` elements of so many bytes, to such of so many.
device::MapArguments map_of(DevicePointer to, std::size_t to_bytes, DevicePointer from,
                            std::size_t from_bytes, std::size_t count) {
  const std::uint64_t group = device::group_size(std::min(to_bytes, from_bytes));
  device::MapArguments arguments{};
  arguments.to = to;
  arguments.from = from;
  arguments.extent = {count,
                      num_single({{{&to, 1}, to_bytes}, {{&from, 1}, from_bytes}}, group, count)};
  return arguments;
}

}  // namespace

void DeviceStream::zero(DevicePointer to, std::size_t num_bytes) {
  if (num_bytes == 0) return;
  const cuda::PrimaryContext& context = device_->context();
  context.call(context.driver().memset_d8_async, to, static_cast<unsigned char>(0), num_bytes,
               static_cast<cuda::Stream>(stream_));
}

void DeviceStream::pack_scaled(DevicePointer to, DevicePointer from, std::size_t count, DType dtype,
                               double factor) {
  require_scalable(dtype, factor);
  const std::size_t element_bytes = size_of(dtype);
  if (factor == 0.0) return zero(to, count * element_bytes);
  if (factor == 1.0) return copy(to, from, count * element_bytes);
  if (count == 0) return;
  const cuda::PrimaryContext& context = device_->context();
  device::MapArguments arguments = map_of(to, element_bytes, from, element_bytes, count);
  arguments.factor = bits_of_factor(factor, accumulator_of(dtype));
  arguments.invalid = invalid_of(accumulator_of(dtype));
  launch(context, context.kernels().scale[index_of(dtype)], stream_,
         device::group_size(element_bytes), arguments);
}

void DeviceStream::pack_narrowed(DevicePointer to, DevicePointer from, std::size_t count,
                                 DType narrow, double factor) {
  const std::size_t element_bytes = size_of(narrow);
  if (factor == 0.0) return zero(to, count * element_bytes);
  if (count == 0) return;
  const cuda::PrimaryContext& context = device_->context();
  device::MapArguments arguments = map_of(to, element_bytes, from, sizeof(float), count);
  // A product with 1 has the same bits.
  arguments.factor = bits_of_factor(factor, DType::float32);
  arguments.invalid = invalid_of(DType::float32);
  launch(context, context.kernels().narrow[index_of(narrow)], stream_,
         device::group_size(element_bytes), arguments);
}

void DeviceStream::unpack_widened(DevicePointer to, DevicePointer from, std::size_t count,
                                  DType narrow) {
  if (count == 0) return;
  const cuda::PrimaryContext& context = device_->context();
  const device::MapArguments arguments = map_of(to, sizeof(float), from, size_of(narrow), count);
  launch(context, context.kernels().widen[index_of(narrow)], stream_,
         device::group_size(size_of(narrow)), arguments);
}

void DeviceStream::sum(const DeviceSum& arrays, const SumTree& tree) {
  const auto is_possible = [](std::size_t number) {
    return number > 0 && number <= kMostDeviceSources;
  };
  if (!is_possible(arrays.sources.size()) || !is_possible(arrays.targets.size()) ||
      !is_summed_on_devices(arrays.dtype)) {
    throw UsageError("GPUs sum 1 to ", kMostDeviceSources,
                     " arrays of floats. Received: ", arrays.sources.size(), " of ",
                     name_of(arrays.dtype), " to ", arrays.targets.size(), " places.");
  }
  if (arrays.count == 0) return;
  const std::size_t element_bytes = size_of(arrays.dtype);
  const std::uint64_t group = device::group_size(element_bytes);
  device::SumArguments arguments{};
  std::ranges::copy(arrays.sources, arguments.sources);
  std::ranges::copy(arrays.targets, arguments.targets);
  arguments.num_sources = static_cast<std::uint32_t>(arrays.sources.size());
  arguments.num_targets = static_cast<std::uint32_t>(arrays.targets.size());
  arguments.extent = {arrays.count,
                      num_single({{arrays.sources, element_bytes}, {arrays.targets, element_bytes}},
                                 group, arrays.count)};
  arguments.invalid = invalid_of(accumulator_of(arrays.dtype));
  arguments.folds = folds_of(tree, arrays.sources.size());
  const cuda::PrimaryContext& context = device_->context();
  const cuda::Kernel kernel =
      context.kernels().sum[index_of_sum(arguments)][index_of(arrays.dtype)];
  launch(context, kernel, stream_, group, arguments);
}

}  // namespace tnt::comm
