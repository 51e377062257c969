#include "tnt/comm/collective/double_buffer.hpp"

namespace tnt::comm {

std::size_t DoubleBuffer::open(std::uint64_t step) {
  const std::lock_guard lock(mutex_);
  std::size_t& slot = slot_of_step_[step % 2];
  if (num_opened_ == step) {
    const std::size_t before = slot_of_step_[(step + 1) % 2];
    slot = num_lent_[before] > 0 ? 1 - before : before;
    ++num_opened_;
  }
  return slot;
}

std::size_t DoubleBuffer::slot_of(std::uint64_t step) const {
  const std::lock_guard lock(mutex_);
  return slot_of_step_[step % 2];
}

bool DoubleBuffer::try_lend(std::uint64_t step) {
  const std::lock_guard lock(mutex_);
  const std::size_t slot = slot_of_step_[step % 2];
  const bool is_packed_again = num_opened_ > step + 1 && slot_of_step_[(step + 1) % 2] == slot;
  if (is_packed_again || num_lent_[1 - slot] > 0) return false;
  ++num_lent_[slot];
  return true;
}

void DoubleBuffer::take_back(std::size_t slot) {
  const std::lock_guard lock(mutex_);
  --num_lent_[slot];
}

}  // namespace tnt::comm
