#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "kernel_variants.hpp"
#include "typed_reference.hpp"

namespace tnt::comm {
namespace {

template <typename T>
std::vector<T> special_values() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = {T{0}, T{1}, T{2}, T{7}, Limits::min(), Limits::lowest(), Limits::max()};
  if constexpr (std::is_floating_point_v<T>) {
    for (const T value : {T{1} / 10, Limits::denorm_min(), Limits::min() / 2, Limits::infinity(),
                          Limits::quiet_NaN(), Limits::signaling_NaN()}) {
      values.push_back(value);
    }
    const std::size_t num_positive = values.size();
    for (std::size_t i = 0; i < num_positive; ++i) values.push_back(-values[i]);
  } else {
    values.push_back(static_cast<T>(-1));
    values.push_back(static_cast<T>(Limits::max() / 3));
  }
  return values;
}

// One element, in the plainest way: a NaN on either side gives NaN.
template <typename T>
T combine_one(ReduceOp op, T a, T b) {
  if (op == ReduceOp::min) return a < b || a != a ? a : b;
  if (op == ReduceOp::max) return a > b || a != a ? a : b;
  return tests::combine_plainly(op, a, b);
}

template <typename T>
struct Operands {
  std::vector<T> left;
  std::vector<T> right;
  std::vector<T> expected;
};

// Every pair of special values, several times. Which of two NaNs a sum or product has is open.
template <typename T>
Operands<T> operands_of(ReduceOp op, std::size_t count) {
  const auto values = special_values<T>();
  const bool is_open = op == ReduceOp::sum || op == ReduceOp::prod;
  Operands<T> operands;
  for (std::size_t i = 0; i < count; ++i) {
    const T a = values[i % values.size()];
    const T second = values[i / values.size() % values.size()];
    const T b = is_open && a != a && second != second ? T{1} : second;
    operands.left.push_back(a);
    operands.right.push_back(b);
    operands.expected.push_back(combine_one(op, a, b));
  }
  return operands;
}

template <typename T>
bool have_equal_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <typename T>
void expect_plain_results(const KernelTable::Combines& combines, ReduceOp op, std::size_t count) {
  const Operands<T> operands = operands_of<T>(op, count);
  // Places of their own, then one or both operands among them.
  for (std::size_t num_targets = 1; num_targets <= KernelTable::kMaxTargets; ++num_targets) {
    for (std::size_t num_in_place = 0; num_in_place <= std::min<std::size_t>(2, num_targets);
         ++num_in_place) {
      Operands<T> used = operands;
      std::vector<std::vector<T>> others(num_targets, std::vector<T>(count));
      std::vector<std::vector<T>*> places;
      if (num_in_place > 0) places.push_back(&used.right);
      if (num_in_place > 1) places.push_back(&used.left);
      for (auto& other : others) places.push_back(&other);
      std::vector<void*> targets;
      for (std::size_t k = 0; k < num_targets; ++k) targets.push_back(places[k]->data());
      combines.to[num_targets - 1](targets.data(), used.left.data(), used.right.data(), count);
      for (std::size_t k = 0; k < num_targets; ++k) {
        EXPECT_TRUE(have_equal_bits(*places[k], operands.expected))
            << name_of(op) << " of " << count << " to place " << k << " of " << num_targets;
      }
    }
  }
}

class Combine : public tests::Variants {};

TEST_P(Combine, HasTheBitsOfPlainLoopsForSpecialValues) {
  for (std::size_t dtype = index_of(DType::float32); dtype < kNumDTypes; ++dtype) {
    for (std::size_t op = 0; op < kNumReduceOps; ++op) {
      const KernelTable::Combines& combines = kernels().combine[dtype][op];
      if (combines.to[0] == nullptr || static_cast<DType>(dtype) == DType::boolean) continue;
      tests::with_type_of(static_cast<DType>(dtype), [&](auto zero) {
        // Parts of a vector, vectors, and groups of them.
        for (const std::size_t count : {0, 1, 3, 5, 8, 17, 31, 63, 64, 100, 129, 1500}) {
          SCOPED_TRACE(name_of(static_cast<DType>(dtype)));
          expect_plain_results<decltype(zero)>(combines, static_cast<ReduceOp>(op), count);
        }
      });
    }
  }
}

TEST_P(Combine, BooleansAreLogical) {
  const std::vector<std::uint8_t> left = {0, 0, 1, 1};
  const std::vector<std::uint8_t> right = {0, 1, 0, 1};
  const KernelTable::Combines* row = kernels().combine[index_of(DType::boolean)];
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::land, ReduceOp::max, ReduceOp::lor}) {
    std::vector<std::uint8_t> result(4);
    void* target = result.data();
    row[index_of(op)].to[0](&target, left.data(), right.data(), 4);
    const bool is_and = op == ReduceOp::min || op == ReduceOp::land;
    EXPECT_EQ(result, (std::vector<std::uint8_t>{0, !is_and, !is_and, 1})) << name_of(op);
  }
}

template <typename T>
void expect_scaled(KernelTable::Scale scale) {
  std::vector<T> values = operands_of<T>(ReduceOp::min, 129).left;
  std::vector<T> expected;
  for (const T value : values) expected.push_back(static_cast<T>(0.3) * value);
  scale(values.data(), values.data(), values.size(), 0.3);
  EXPECT_TRUE(have_equal_bits(values, expected));
}

TEST_P(Combine, ScaledFloatsAreMultipliedOnce) {
  expect_scaled<float>(kernels().scale[index_of(DType::float32)]);
  expect_scaled<double>(kernels().scale[index_of(DType::float64)]);
}

INSTANTIATE_TEST_SUITE_P(All, Combine, tests::all_variants(), tests::name_of_variant);

#if defined(__x86_64__)
TEST(Kernels, AreThoseOfTheProcessor) {
  std::ifstream file("/proc/cpuinfo");
  std::string flags;
  while (std::getline(file, flags) && flags.rfind("flags", 0) != 0) {
  }
  const auto has = [&](const char* flag) { return (flags + " ").find(flag) != std::string::npos; };
  const bool has_avx2 = has(" avx2 ") && has(" f16c ");
  EXPECT_EQ(&kernels(), has_avx2 ? &avx2_kernels() : &baseline_kernels());
}
#endif

}  // namespace
}  // namespace tnt::comm
