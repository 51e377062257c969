#include "tnt/comm/collective/device/chunk_exchange.hpp"

#include <algorithm>
#include <utility>

namespace tnt::comm {

ChunkExchange::ChunkExchange(const std::shared_ptr<Device>& device, DType dtype, std::size_t count,
                             std::size_t num_sources, std::shared_ptr<HostBucket> exchange)
    : dtype_(dtype),
      count_(count),
      exchange_(std::move(exchange)),
      partial_(device, std::max<std::size_t>(num_partial_bytes(), 1)),
      widened_(device,
               std::max<std::size_t>(is_rounded() ? num_sources * num_partial_bytes() : 0, 1)) {}

void ChunkExchange::pack(DeviceStream& stream, std::span<const DevicePointer> sources,
                         const SumTree& on_host, std::uint64_t step) {
  std::byte* const to = exchange_->input(step);  // also of nothing: it opens the step
  if (count_ == 0) return;
  std::vector<DevicePointer> operands(sources.begin(), sources.end());
  for (std::size_t i = 0; is_rounded() && i < operands.size(); ++i) {
    const DevicePointer widened = widened_.data() + i * num_partial_bytes();
    stream.unpack_widened(widened, std::exchange(operands[i], widened), count_, dtype_);
  }
  const DevicePointer target = partial_.data();
  stream.sum({operands, {&target, 1}, accumulator_of(dtype_), count_}, on_host);
  stream.copy_to_host(to, target, num_partial_bytes());
}

Progress ChunkExchange::advance() {
  const Progress progress = exchange_->advance();
  if (progress == Progress::done) exchange_->complete();
  return progress;
}

void ChunkExchange::hand_out(DeviceStream& stream, DevicePointer target, std::uint64_t step) {
  if (count_ == 0) return;
  if (!is_rounded()) {
    stream.copy_from_host(target, exchange_->result(step), num_partial_bytes());
    return;
  }
  stream.copy_from_host(partial_.data(), exchange_->result(step), num_partial_bytes());
  stream.pack_narrowed(target, partial_.data(), count_, dtype_, 1.0);
}

}  // namespace tnt::comm
