#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tnt/comm/base/array.hpp"

namespace tnt::comm {

struct TensorSpec {
  std::string name;
  DType dtype = DType::float32;
  std::size_t num_elements = 0;

  std::size_t num_bytes() const { return num_elements * size_of(dtype); }
};

struct Bucket {
  DType dtype = DType::float32;
  std::vector<std::size_t> tensor_ids;  ///< indices into the plan's tensors
  std::vector<std::size_t> offsets;     ///< in elements, one per tensor id
  std::size_t num_elements = 0;
  DType wire_dtype = DType::float32;  ///< as what the elements travel

  bool is_compressed() const { return wire_dtype != dtype; }
  std::size_t num_wire_bytes() const { return num_elements * size_of(wire_dtype); }
};

/// Which tensors share a bucket. Pure: depends on the arguments only, so all
/// ranks that plan for the same tensors get the same plan.
///
/// Tensors are taken in reverse order of the list, since backpropagation produces gradients roughly
/// from the last variable to the first. Each dtype has one open bucket. While the open bucket holds
/// fewer than `threshold_bytes`, the next tensor is appended to it; otherwise it is closed and the
/// tensor opens a new one. So every bucket but the last of its dtype reaches the threshold, and a
/// threshold of 0 fuses nothing.
///
/// With a wire dtype (float16 or bfloat16), float32 tensors are rounded to it when they are packed,
/// which halves what travels. Their sum is formed in float32 over the whole tree, rounded once, and
/// is float32 again when it is handed out. Buckets are planned as without.
class TNT_COMM_EXPORT FusionPlan {
 public:
  /// UsageError if the wire dtype is another one than these.
  FusionPlan(std::vector<TensorSpec> tensors, std::size_t threshold_bytes,
             std::optional<DType> wire_dtype = {});

  const std::vector<TensorSpec>& tensors() const { return tensors_; }
  std::size_t threshold_bytes() const { return threshold_bytes_; }
  std::optional<DType> wire_dtype() const { return wire_dtype_; }

  /// In the order in which they are opened.
  const std::vector<Bucket>& buckets() const { return buckets_; }

 private:
  std::vector<TensorSpec> tensors_;
  std::size_t threshold_bytes_;
  std::optional<DType> wire_dtype_;
  std::vector<Bucket> buckets_;
};

/// All that must be equal on all ranks, one line each.
std::string describe(const FusionPlan& plan);

/// For messages: "'dense/kernel', 'dense/bias'", and of more than some how many they are.
std::string listed_tensors(const std::vector<std::string>& names);

/// For messages: "bucket 3 of 'gradients'".
std::string label_of_bucket(std::size_t bucket, const std::string& reducer_name);

/// For messages: "bucket 3 of 'gradients' ('dense/kernel', 'dense/bias')".
std::string describe_bucket(const FusionPlan& plan, std::size_t bucket,
                            const std::string& reducer_name);

}  // namespace tnt::comm
