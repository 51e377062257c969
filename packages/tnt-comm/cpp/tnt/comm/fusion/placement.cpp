#include "tnt/comm/fusion/placement.hpp"

#include "tnt/comm/base/partition.hpp"

namespace tnt::comm {

Placement place(const Bucket& bucket, const std::vector<TensorSpec>& tensors) {
  constexpr std::size_t kCacheLine = 64;
  const std::size_t line = kCacheLine / size_of(bucket.wire_dtype);
  Placement result;
  for (const std::size_t id : bucket.tensor_ids) {
    result.offsets.push_back(result.num_elements);
    result.num_elements += round_up(tensors[id].num_elements, line);
  }
  return result;
}

}  // namespace tnt::comm
