#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tnt/comm/collective/collectives.hpp"
#include "tnt/comm/kernel/tree_reduce.hpp"

namespace tnt::comm {

/// A collective in which the array of a rank consists of a part for each member.
///
/// Per block every rank gives the next share of *each* part to the member that it
/// belongs to, so that all members have something to take in every block.
///
/// Blocks: ceil(longest part / share). In shared memory one round each; by messages n-1 of each
/// rank, which sends all of the array but its own part, as it must.
template <typename Exchange>
class PartsWork : public Exchange {
 public:
  void copy_in(std::uint64_t index) final {
    const bool has_array = this->descriptor().is_root(this->rank());
    for (int member = 0; member < this->size(); ++member) {
      const Range& part = parts_[static_cast<std::size_t>(member)];
      const Range bytes = has_array ? block(index, member) : Range{};
      if (bytes.size() > 0) {
        std::memcpy(this->outgoing(member, index), in_ + part.begin + bytes.begin, bytes.size());
      }
      this->send(member, index, bytes.size());
    }
  }

 protected:
  template <typename Pipeline>
  PartsWork(const Pipeline& pipeline, const Descriptor& descriptor, const CallArrays& arrays)
      : Exchange(pipeline, descriptor, SentParts::different),
        in_(static_cast<const std::byte*>(arrays.in)),
        out_(static_cast<std::byte*>(arrays.out)) {
    const std::size_t element_bytes = size_of(descriptor.dtype);
    std::size_t longest = 0;
    for (const Range& part : arrays.parts) {
      parts_.push_back({part.begin * element_bytes, part.end * element_bytes});
      longest = std::max(longest, parts_.back().size());
    }
    this->cut(longest);
  }

  /// The bytes of the member's part that the block brings, counted from the part's begin.
  Range block(std::uint64_t index, int member) const {
    const std::size_t end = parts_[static_cast<std::size_t>(member)].size();
    const std::size_t begin = index * this->share();
    return {std::min(begin, end), std::min(begin + this->share(), end)};
  }
  std::size_t num_own_bytes() const {
    return parts_[static_cast<std::size_t>(this->rank())].size();
  }
  std::byte* out() const { return out_; }

 private:
  std::vector<Range> parts_;  // bytes
  const std::byte* in_;
  std::byte* out_;
};

/// Alltoall: rank r gets part r of the arrays of all members, in member order;
/// and scatter, where the root alone has an array and the messages of the others are empty.
template <typename Exchange>
class Alltoall final : public PartsWork<Exchange> {
 public:
  template <typename Pipeline>
  Alltoall(const Pipeline& pipeline, const Descriptor& descriptor, const CallArrays& arrays)
      : PartsWork<Exchange>(pipeline, descriptor, arrays) {}

  void copy_out(std::uint64_t index) override {
    const Range bytes = this->block(index, this->rank());
    if (bytes.size() == 0) return;
    std::byte* part = this->out();
    for (int member = 0; member < this->size(); ++member) {
      if (!this->descriptor().is_root(member)) continue;
      std::memcpy(part + bytes.begin, this->incoming(member, index), bytes.size());
      part += this->num_own_bytes();
    }
  }
};

/// Reduce-scatter: rank r gets part r of the reduced array.
template <typename Exchange>
class ReduceScatter final : public PartsWork<Exchange> {
 public:
  template <typename Pipeline>
  ReduceScatter(const Pipeline& pipeline, const Descriptor& descriptor, const CallArrays& arrays)
      : PartsWork<Exchange>(pipeline, descriptor, arrays),
        sources_(static_cast<std::size_t>(this->size())),
        reducer_(descriptor.dtype, descriptor.op, sources_.size()) {}

  void copy_out(std::uint64_t index) override {
    const Range bytes = this->block(index, this->rank());
    for (int member = 0; member < this->size(); ++member) {
      sources_[static_cast<std::size_t>(member)] = this->incoming(member, index);
    }
    reducer_.reduce(this->out() + bytes.begin, sources_.data(), sources_.size(),
                    bytes.size() / size_of(this->descriptor().dtype));
  }

 private:
  std::vector<const std::byte*> sources_;
  TreeReducer reducer_;
};

}  // namespace tnt::comm
