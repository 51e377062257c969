// Tensors as bytes that say what they are, for those whose size other ranks do not know.
//
// The number of dimensions, their sizes, of strings the length of each, and the bytes of the
// elements, all numbers as uint64. Ranks have the same byte order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tnt/keras/kernel.hpp"

namespace tnt::keras {

/// The tensor of any dtype but resource and variant.
std::vector<std::byte> pack(const TF_Tensor* tensor);

/// A packed tensor of the dtype `dtype`, read where it is.
class PackedTensor {
 public:
  /// Throws if the bytes are none.
  PackedTensor(std::span<const std::byte> bytes, TF_DataType dtype);

  const std::vector<int64_t>& dims() const { return dims_; }
  size_t num_elements() const { return num_elements_; }

  /// Writes its elements to those of `target` from the one with number `begin`.
  void copy_to(TF_Tensor* target, size_t begin) const;

 private:
  TF_DataType dtype_;
  std::vector<int64_t> dims_;
  size_t num_elements_ = 1;
  std::span<const std::byte> elements_;
};

}  // namespace tnt::keras
