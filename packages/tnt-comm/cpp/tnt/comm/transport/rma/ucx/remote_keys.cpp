#include "tnt/comm/transport/rma/ucx/remote_keys.hpp"

#include <cstring>

namespace tnt::comm {

std::string RemoteKeys::message_of(const void* address, std::string_view key) {
  const auto number = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(address));
  std::string message(sizeof number, '\0');
  std::memcpy(message.data(), &number, sizeof number);
  return message.append(key);
}

void RemoteKeys::note(int rank, SegmentId segment, std::string_view message) {
  Entry entry;
  if (message.size() < sizeof entry.address) return;  // of no rank of the job
  std::memcpy(&entry.address, message.data(), sizeof entry.address);
  entry.packed = message.substr(sizeof entry.address);
  Entry& known = entries_[{rank, segment}];
  if (known.key != nullptr) replaced_.push_back(known.key);
  known = std::move(entry);
}

std::optional<RemoteKeys::Target> RemoteKeys::find(int rank, SegmentId segment,
                                                   ucx::Endpoint endpoint) {
  destroy_replaced();
  const auto found = entries_.find({rank, segment});
  if (found == entries_.end()) return std::nullopt;
  Entry& entry = found->second;
  if (!entry.packed.empty()) {
    const std::string packed = std::exchange(entry.packed, {});
    if (functions_.ep_rkey_unpack(endpoint, packed.data(), &entry.key) != ucx::kOk) {
      entry.key = nullptr;
    }
  }
  if (entry.key == nullptr) return std::nullopt;
  return Target{entry.address, entry.key};
}

void RemoteKeys::clear() {
  destroy_replaced();
  for (auto& [place, entry] : std::exchange(entries_, {})) {
    if (entry.key != nullptr) functions_.rkey_destroy(entry.key);
  }
}

void RemoteKeys::destroy_replaced() {
  for (const ucx::RemoteKey key : std::exchange(replaced_, {})) functions_.rkey_destroy(key);
}

}  // namespace tnt::comm
