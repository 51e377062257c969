#include "tnt/comm/base/dtype.hpp"

#include <array>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/text.hpp"

namespace tnt::comm {
namespace {

constexpr std::array<std::string_view, kNumDTypes> kDTypeNames = {
    "float16", "bfloat16", "float32", "float64", "int8",
    "int16",   "int32",    "int64",   "uint8",   "bool"};
constexpr std::array<std::size_t, kNumDTypes> kDTypeSizes = {2, 2, 4, 8, 1, 2, 4, 8, 1, 1};
constexpr std::array<std::string_view, kNumReduceOps> kOpNames = {"sum", "prod", "min",
                                                                  "max", "and",  "or"};

// Numbers that other ranks send may be none of ours.
template <typename Names>
std::string_view name_at(const Names& names, std::size_t index) {
  return index < names.size() ? names[index] : "unknown";
}

template <typename Names>
std::size_t index_of(const Names& names, std::string_view name, std::string_view what) {
  std::string known;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return i;
    known += text(i == 0 ? "" : ", ", names[i]);
  }
  throw UsageError(
      text("`", what, "` must be one of ", known, ". Received: ", what, "='", name, "'."));
}

}  // namespace

std::size_t size_of(DType dtype) {
  return kDTypeSizes[static_cast<std::size_t>(dtype)];
}

bool is_floating(DType dtype) {
  return dtype <= DType::float64;
}

std::string_view name_of(DType dtype) {
  return name_at(kDTypeNames, static_cast<std::size_t>(dtype));
}

std::string_view name_of(ReduceOp op) {
  return name_at(kOpNames, static_cast<std::size_t>(op));
}

DType parse_dtype(std::string_view name) {
  return static_cast<DType>(index_of(kDTypeNames, name, "dtype"));
}

ReduceOp parse_reduce_op(std::string_view name) {
  return static_cast<ReduceOp>(index_of(kOpNames, name, "op"));
}

void require_supported(DType dtype, ReduceOp op) {
  const bool logical = op == ReduceOp::land || op == ReduceOp::lor;
  const bool arithmetic = op == ReduceOp::sum || op == ReduceOp::prod;
  if ((logical && is_floating(dtype)) || (arithmetic && dtype == DType::boolean)) {
    throw UsageError(text("Operation '", name_of(op), "' is not defined for dtype ", name_of(dtype),
                          ": sum and prod need numbers, and/or need bool or integers."));
  }
}

}  // namespace tnt::comm
