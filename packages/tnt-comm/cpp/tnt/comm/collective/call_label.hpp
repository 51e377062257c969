#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace tnt::comm {

/// What a caller says about a collective besides its arguments.
struct CallLabel {
  std::string_view label;   ///< what the call is for; must be equal on all ranks
  std::string_view caller;  ///< where it is made, such as "train.py:31"; shown, not compared

  /// Finds the caller if it is not given, which takes longer than a short call.
  /// Asked in the thread of the call; if that is going to wait, only when there
  /// is something to wait for.
  std::string (*find_caller)() = nullptr;

  /// What the call creates, such as "Gatherer 'rows'"; shown, not compared.
  std::string_view created = {};

  /// Of the array, if it has several axes (see pack_shape); must be equal on all ranks.
  std::uint64_t shape = 0;

  bool must_find_caller() const { return caller.empty() && find_caller != nullptr; }
};

/// The most bytes of a note, which is what messages show of a label.
inline constexpr std::size_t kMaxNoteBytes = 128;

/// Fingerprint of a label; 0 only if there is none.
std::uint64_t fingerprint_of(std::string_view label);

/// The note for messages: " 'fit: end of step' from train.py:31", or "". A long
/// label loses its end and a long caller its begin, between characters. Finds
/// the caller if need be.
std::string note_of(const CallLabel& label);

/// The note of a call: "" unless it is given, which may be after
/// the call has begun, as promised.
///
/// Threads: promise() before others know of it; give() once; the rest from any
/// thread.
class CallNote {
 public:
  /// It will be given soon. Nobody is told of a mismatch before that.
  void promise() { is_given_.store(false, std::memory_order_relaxed); }

  void give(std::string text) {
    text_ = std::move(text);
    is_given_.store(true, std::memory_order_release);
  }

  bool is_given() const { return is_given_.load(std::memory_order_acquire); }
  std::string text() const { return is_given() ? text_ : std::string(); }

 private:
  std::atomic<bool> is_given_{true};
  std::string text_;
};

}  // namespace tnt::comm
