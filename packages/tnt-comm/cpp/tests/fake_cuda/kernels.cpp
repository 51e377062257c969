#include "fake_cuda/kernels.hpp"

#include <map>
#include <vector>

#include "tnt/comm/device/arithmetic.hpp"
#include "tnt/comm/device/folding.hpp"
#include "tnt/comm/device/kernel_arguments.hpp"

namespace tnt::comm::tests::fake_cuda {
namespace {

using namespace tnt::comm::device;

// Elements of an array as a kernel reads or writes it; null where a GPU could not.
template <typename Stored>
Stored* elements_of(cuda::Pointer pointer, const Extent& extent, const Translate& translate) {
  const bool has_groups = extent.num_single < extent.count;
  const cuda::Pointer first_group = pointer + extent.num_single * sizeof(Stored);
  if (pointer % sizeof(Stored) != 0 || (has_groups && first_group % 16 != 0)) return nullptr;
  return reinterpret_cast<Stored*>(translate(pointer, extent.count * sizeof(Stored)));
}

template <typename Format>
using Sources = std::vector<const typename Format::Stored*>;

template <typename Format, int kSources>
typename Format::Wide plain_sum(const SumArguments& arguments, const Sources<Format>& sources,
                                std::size_t index) {
  using Wide = typename Format::Wide;
  if constexpr (kSources > 0) {
    Wide values[kSources][1];
    for (int i = 0; i < kSources; ++i) {
      values[i][0] = Format::widen(sources[static_cast<std::size_t>(i)][index]);
    }
    add_pairs<kSources>(values);
    return values[0][0];
  } else {
    Folding<Wide, 1> folding(arguments.folds);
    Wide value[1] = {};
    for (const auto* source : sources) {
      value[0] = Format::widen(source[index]);
      folding.take(value, PlainAddition<Wide>());
    }
    return value[0];
  }
}

template <typename Format>
typename Format::Wide careful_sum(const SumArguments& arguments, const Sources<Format>& sources,
                                  std::size_t index) {
  using Wide = typename Format::Wide;
  const CarefulAddition<Wide> plus{static_cast<Wide>(arguments.invalid)};
  Folding<Wide, 1> folding(arguments.folds);
  Wide value[1] = {};
  for (const auto* source : sources) {
    value[0] = Format::widen(source[index]);
    folding.take(value, plus);
  }
  return value[0];
}

template <typename Format, int kSources>
std::optional<std::function<void()>> sum(const void* given, const Translate& translate) {
  using Stored = typename Format::Stored;
  const SumArguments arguments = *static_cast<const SumArguments*>(given);
  Sources<Format> sources;
  std::vector<Stored*> targets;
  for (std::uint32_t i = 0; i < arguments.num_sources; ++i) {
    sources.push_back(elements_of<Stored>(arguments.sources[i], arguments.extent, translate));
    if (sources.back() == nullptr) return std::nullopt;
  }
  for (std::uint32_t i = 0; i < arguments.num_targets; ++i) {
    targets.push_back(elements_of<Stored>(arguments.targets[i], arguments.extent, translate));
    if (targets.back() == nullptr) return std::nullopt;
  }
  return [arguments, sources, targets] {
    for (std::size_t i = 0; i < arguments.extent.count; ++i) {
      auto value = plain_sum<Format, kSources>(arguments, sources, i);
      if (is_nan(value)) value = careful_sum<Format>(arguments, sources, i);
      for (Stored* target : targets) target[i] = Format::narrow(value);
    }
  };
}

template <typename From, typename To, bool kIsScaled>
std::optional<std::function<void()>> map(const void* given, const Translate& translate) {
  using Wide = typename From::Wide;
  const MapArguments arguments = *static_cast<const MapArguments*>(given);
  const auto* from =
      elements_of<typename From::Stored>(arguments.from, arguments.extent, translate);
  auto* to = elements_of<typename To::Stored>(arguments.to, arguments.extent, translate);
  if (from == nullptr || to == nullptr) return std::nullopt;
  return [arguments, from, to] {
    for (std::size_t i = 0; i < arguments.extent.count; ++i) {
      Wide value = From::widen(from[i]);
      if constexpr (kIsScaled) {
        value = multiply(static_cast<Wide>(arguments.factor), value,
                         static_cast<Wide>(arguments.invalid));
      }
      to[i] = To::narrow(value);
    }
  };
}

using Table = std::map<std::string, KernelFunction>;

template <typename Format>
void add_kernels(Table& table, const std::string& name) {
  table["sum_2_" + name] = sum<Format, 2>;
  table["sum_4_" + name] = sum<Format, 4>;
  table["sum_8_" + name] = sum<Format, 8>;
  table["sum_any_" + name] = sum<Format, 0>;
  table["scale_" + name] = map<Format, Format, true>;
  if constexpr (sizeof(typename Format::Stored) == 2) {
    table["narrow_" + name] = map<Float32, Format, true>;
    table["widen_" + name] = map<Format, Float32, false>;
  }
}

Table make_table() {
  Table table;
  add_kernels<Float16>(table, "float16");
  add_kernels<Bfloat16>(table, "bfloat16");
  add_kernels<Float32>(table, "float32");
  add_kernels<Float64>(table, "float64");
  return table;
}

}  // namespace

const KernelFunction* find_kernel(const std::string& name) {
  static const auto* table = new Table(make_table());
  const auto found = table->find(name);
  return found == table->end() ? nullptr : &found->second;
}

}  // namespace tnt::comm::tests::fake_cuda
