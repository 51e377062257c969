#pragma once

#include <cstddef>
#include <memory>

#include "tnt/comm/base/export.hpp"
#include "tnt/comm/collective/bucket_operation.hpp"

namespace tnt::comm {

/// A result that somebody reads where it was formed. The memory is the
/// borrower's, also for writing, until the view is destroyed; it keeps the
/// memory alive, whatever else has been closed. Destroyed by any thread.
class TNT_COMM_EXPORT BorrowedView {
 public:
  BorrowedView(std::shared_ptr<DoubleBuffer> slots, std::size_t slot, std::size_t offset);
  ~BorrowedView();
  BorrowedView(const BorrowedView&) = delete;
  BorrowedView& operator=(const BorrowedView&) = delete;

  /// 64-byte aligned.
  std::byte* data() const { return data_; }

 private:
  std::shared_ptr<DoubleBuffer> slots_;
  std::size_t slot_;
  std::byte* data_;
};

}  // namespace tnt::comm
