#pragma once

#include <cstddef>
#include <memory>

#include "tnt/comm/algorithm/window_pair.hpp"
#include "tnt/comm/base/export.hpp"

namespace tnt::comm {

/// A result that somebody reads where it was formed. The memory is the
/// borrower's, also for writing, until the lease is destroyed; it keeps the
/// memory alive, whatever else has been closed. Destroyed by any thread.
class TNT_COMM_EXPORT Lease {
 public:
  Lease(std::shared_ptr<WindowPair> windows, std::size_t window, std::size_t offset);
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  /// 64-byte aligned.
  std::byte* data() const { return data_; }

 private:
  std::shared_ptr<WindowPair> windows_;
  std::size_t window_;
  std::byte* data_;
};

}  // namespace tnt::comm
