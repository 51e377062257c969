#include "tnt/comm/algorithm/window_pair.hpp"

#include <utility>

namespace tnt::comm {

WindowPair::WindowPair(std::shared_ptr<Segment> segment, std::size_t offset,
                       std::size_t window_bytes, Order order)
    : segment_(std::move(segment)), offset_(offset), window_bytes_(window_bytes), order_(order) {}

std::size_t WindowPair::open(std::uint64_t step) {
  const std::lock_guard lock(mutex_);
  std::size_t& window = window_of_step_[step % 2];
  if (num_opened_ == step) {
    const std::size_t before = window_of_step_[(step + 1) % 2];
    const bool must_change = order_ == Order::alternate || num_lent_[before] > 0;
    window = must_change ? 1 - before : before;
    ++num_opened_;
  }
  return window;
}

std::size_t WindowPair::window_of(std::uint64_t step) const {
  const std::lock_guard lock(mutex_);
  return window_of_step_[step % 2];
}

bool WindowPair::try_lend(std::uint64_t step) {
  const std::lock_guard lock(mutex_);
  const std::size_t window = window_of_step_[step % 2];
  const bool is_packed_again = num_opened_ > step + 1 && window_of_step_[(step + 1) % 2] == window;
  if (order_ == Order::alternate || is_packed_again || num_lent_[1 - window] > 0) return false;
  ++num_lent_[window];
  return true;
}

void WindowPair::take_back(std::size_t window) {
  const std::lock_guard lock(mutex_);
  --num_lent_[window];
}

}  // namespace tnt::comm
