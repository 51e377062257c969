#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tnt/comm/kernel/table.hpp"

namespace tnt::comm::tests {

using VariantFunction = const KernelTable& (*)();

/// A test of the loops as compiled for each instruction set that this processor has.
class Variants : public ::testing::TestWithParam<VariantFunction> {
 protected:
  const KernelTable& kernels() const { return GetParam()(); }
};

inline auto all_variants() {
  return ::testing::Values(&baseline_kernels, &kernels);
}

inline std::string name_of_variant(const ::testing::TestParamInfo<VariantFunction>& info) {
  return info.param == &baseline_kernels ? "baseline" : "chosen";
}

}  // namespace tnt::comm::tests
