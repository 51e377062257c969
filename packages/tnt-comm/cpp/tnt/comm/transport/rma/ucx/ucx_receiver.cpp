#include "tnt/comm/transport/rma/ucx/ucx_receiver.hpp"

#include <cstring>

namespace tnt::comm {
namespace {

constexpr std::uint64_t kMostAhead = std::uint64_t{1} << 20;

}  // namespace

UcxReceiver::UcxReceiver(int size, UcxSegments& segments)
    : segments_(segments), senders_(static_cast<std::size_t>(size)) {}

bool UcxReceiver::has_greeted(int rank) const {
  const std::lock_guard lock(mutex_);
  return senders_[static_cast<std::size_t>(rank)].has_greeted;
}

void UcxReceiver::take(std::string_view row, std::string_view data, RemoteKeys& keys) {
  const std::lock_guard lock(mutex_);
  while (row.size() >= sizeof(UcxPart)) {
    UcxPart part;
    std::memcpy(&part, row.data(), sizeof part);
    row.remove_prefix(sizeof part);
    if (part.data_bytes > row.size()) return;
    take_part(part, row.empty() ? data : row.substr(0, part.data_bytes), keys);
    row.remove_prefix(part.data_bytes);
  }
}

void UcxReceiver::take_part(const UcxPart& part, std::string_view data, RemoteKeys& keys) {
  if (part.sender >= senders_.size()) return;
  Sender& sender = senders_[part.sender];
  if (part.number - sender.num_delivered > kMostAhead) return;  // of no rank of the job
  if (part.kind == UcxPart::Kind::greeting) sender.has_greeted = true;
  if (!data.empty()) {
    if (part.kind == UcxPart::Kind::key) {
      keys.note(static_cast<int>(part.sender), part.to_segment, data);
    } else {
      segments_.put_down(part.to_segment, part.offset, data);
    }
    ++sender.num_pieces[part.number];
  }
  if (part.kind == UcxPart::Kind::notification) sender.held.emplace(part.number, part);
  deliver(sender);
}

// The notifications that are next, as far as all that was sent before them is there.
void UcxReceiver::deliver(Sender& sender) {
  for (auto next = sender.held.begin(); next != sender.held.end(); next = sender.held.erase(next)) {
    const UcxPart& part = next->second;
    if (part.number != sender.num_delivered) return;
    const auto pieces = sender.num_pieces.find(part.number);
    const std::uint64_t num_pieces = pieces == sender.num_pieces.end() ? 0 : pieces->second;
    if (num_pieces != part.num_pieces) return;
    if (pieces != sender.num_pieces.end()) sender.num_pieces.erase(pieces);
    ++sender.num_delivered;
    segments_.notify(part.segment, part.slot, part.value);
  }
}

}  // namespace tnt::comm
