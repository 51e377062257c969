#include "tnt/comm/fusion/lease.hpp"

#include <utility>

#include "tnt/comm/base/forked_child.hpp"

namespace tnt::comm {

Lease::Lease(std::shared_ptr<WindowPair> windows, std::size_t window, std::size_t offset)
    : windows_(std::move(windows)), window_(window), data_(windows_->data_of(window) + offset) {}

Lease::~Lease() {
  if (!is_forked_child()) windows_->take_back(window_);
}

}  // namespace tnt::comm
