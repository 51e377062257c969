#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

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

}  // namespace tnt::comm
