#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tnt/comm/collective/collectives.hpp"

namespace tnt::comm {

/// Broadcast: per block the root copies its next share to where the others, or the ranks that it
/// sends to, find it, and everybody copies it out of there.
///
/// Blocks: ceil(bytes / share). In shared memory one round each; the others post too, so
/// that the root knows that its slots are free. For messages see broadcast_schedule().
template <typename Exchange>
class Broadcast final : public Exchange {
 public:
  template <typename Pipeline>
  Broadcast(const Pipeline& pipeline, const Descriptor& descriptor, const CallArrays& arrays)
      : Exchange(pipeline, descriptor, SentParts::same),
        in_(static_cast<const std::byte*>(arrays.in)),
        out_(static_cast<std::byte*>(arrays.out)) {
    this->cut(descriptor.num_bytes());
  }

  void copy_in(std::uint64_t index) override {
    const Range bytes = block(index);
    if (!is_root() || bytes.size() == 0) return;
    std::memcpy(this->outgoing(root(), index), in_ + bytes.begin, bytes.size());
  }

  void copy_out(std::uint64_t index) override {
    const Range bytes = block(index);
    if (bytes.size() == 0 || (is_root() && in_ == out_)) return;
    std::memcpy(out_ + bytes.begin, this->incoming(root(), index), bytes.size());
  }

 private:
  int root() const { return static_cast<int>(this->descriptor().root); }
  bool is_root() const { return this->rank() == root(); }
  Range block(std::uint64_t index) const {
    const std::size_t begin = index * this->share();
    return {begin, std::min<std::size_t>(begin + this->share(), this->descriptor().num_bytes())};
  }

  const std::byte* in_;
  std::byte* out_;
};

}  // namespace tnt::comm
