#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tnt/comm/transport/rma/ucx/ucx_library.hpp"

namespace tnt::comm::tests {

/// A UCX whose ranks are threads of one process. Each worker has a list of messages that have come,
/// which its progress hands to its handler.
///
/// Puts are copied, and flushes complete, by the progress of the worker that has asked for them.
struct FakeUcx {
  /// Messages that come together are handed over from the newest to the oldest.
  std::atomic<bool> turns_order{false};
  /// Nothing is handed over while this is set.
  std::atomic<bool> is_held{false};
  /// From this message on, counted from 1, the worker to which it goes is handed nothing.
  std::atomic<std::size_t> first_held{0};
  std::atomic<int> held_worker{0};
  std::atomic<std::size_t> num_sent{0};     ///< messages
  std::atomic<std::size_t> most_header{0};  ///< bytes

  /// No put is copied, and no flush completes, while this is set.
  std::atomic<bool> are_puts_held{false};
  /// All endpoints fail, each with the next progress of its worker.
  std::atomic<bool> has_failed{false};
  std::atomic<bool> refuses_registration{false};
  std::atomic<std::size_t> num_registered{0};  ///< segments, in all
  std::atomic<std::size_t> num_deregistered{0};
  std::atomic<std::size_t> num_puts{0};
  std::atomic<std::size_t> num_flushes{0};
  /// Puts to where no segment is registered by that key any more.
  std::atomic<std::size_t> num_misused{0};
  std::atomic<std::size_t> num_keys{0};  ///< that are unpacked and not destroyed

  FakeUcx();
  ~FakeUcx();
  FakeUcx(const FakeUcx&) = delete;
  FakeUcx& operator=(const FakeUcx&) = delete;

  /// For UcxDevice; while this object lives.
  static UcxLibrary library();
};

}  // namespace tnt::comm::tests
