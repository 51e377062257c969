#include "tnt/comm/collective/call_label.hpp"

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

constexpr std::string_view kEllipsis = "...";
// Two of them, with quotes and " from ", fit into a note; nothing has all three.
constexpr std::size_t kMaxPartBytes = 56;

std::string without_end(std::string_view label) {
  if (label.size() <= kMaxPartBytes) return std::string(label);
  return text(first_bytes(label, kMaxPartBytes - kEllipsis.size()), kEllipsis);
}

std::string without_begin(std::string_view caller) {
  if (caller.size() <= kMaxPartBytes) return std::string(caller);
  return text(kEllipsis, last_bytes(caller, kMaxPartBytes - kEllipsis.size()));
}

}  // namespace

std::uint64_t fingerprint_of(std::string_view label) {
  if (label.empty()) return 0;
  // FNV-1a.
  std::uint64_t fingerprint = 14695981039346656037ULL;
  for (const char character : label) {
    fingerprint = (fingerprint ^ static_cast<unsigned char>(character)) * 1099511628211ULL;
  }
  return fingerprint == 0 ? 1 : fingerprint;
}

std::string note_of(const CallLabel& label) {
  const std::string caller =
      label.must_find_caller() ? label.find_caller() : std::string(label.caller);
  std::string note;
  if (!label.created.empty()) note += text(" of ", without_end(label.created));
  if (!label.label.empty()) note += text(" '", without_end(label.label), "'");
  if (!caller.empty()) note += text(" from ", without_begin(caller));
  return note;
}

}  // namespace tnt::comm
