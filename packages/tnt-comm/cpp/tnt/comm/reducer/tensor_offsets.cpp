#include "tnt/comm/reducer/tensor_offsets.hpp"

#include "tnt/comm/base/partition.hpp"

namespace tnt::comm {

TensorOffsets place(const Bucket& bucket, const std::vector<TensorSpec>& tensors) {
  const std::size_t line = kCacheLineBytes / size_of(bucket.wire_dtype);
  TensorOffsets result;
  for (const std::size_t id : bucket.tensor_ids) {
    result.offsets.push_back(result.num_elements);
    result.num_elements += round_up(tensors[id].num_elements, line);
  }
  return result;
}

}  // namespace tnt::comm
