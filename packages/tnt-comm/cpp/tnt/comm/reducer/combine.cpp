#include "tnt/comm/reducer/combine.hpp"

#include "tnt/comm/kernel/kernels.hpp"

namespace tnt::comm {

void combine(std::span<const std::byte* const> arrays, void* out, std::size_t count, DType dtype,
             ReduceOp op) {
  require_supported(dtype, op);
  TreeReducer(dtype, op, SumTree(static_cast<int>(arrays.size())))
      .reduce(out, arrays.data(), arrays.size(), count);
}

}  // namespace tnt::comm
