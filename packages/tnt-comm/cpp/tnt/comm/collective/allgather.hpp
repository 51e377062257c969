#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/collective/collectives.hpp"

namespace tnt::comm {

/// Allgather of parts of different sizes; and gather, which the root alone takes.
///
/// Per block every rank offers the next share of its part to all, and takes what the others offer.
/// The sizes are known when all have said what they call; they decide where everything goes, and
/// the number of blocks: the longest part's.
///
/// Blocks: ceil(longest part / share). In shared memory one round each; every byte is copied once
/// in and n times out. By messages n-1 of each rank; every rank sends its part n-1
/// times, as it must be received, and only the notification once its end is reached, or to who
/// does not take it.
template <typename Exchange>
class Allgather final : public Exchange {
 public:
  template <typename Pipeline>
  Allgather(const Pipeline& pipeline, const Descriptor& descriptor, CallArrays arrays)
      : Exchange(pipeline, descriptor, SentParts::same),
        in_(std::move(arrays.gather_input)),
        gathered_(std::move(arrays.gathered)) {}

  void on_match() override {
    std::size_t longest = 0;
    std::size_t end = 0;
    for (int member = 0; member < this->size(); ++member) {
      const std::size_t num_bytes =
          bytes_in_memory(this->count_of(member), size_of(this->descriptor().dtype),
                          text("The block of member ", member));
      longest = std::max(longest, num_bytes);
      end += num_bytes;
      gathered_->ends.push_back(end);
    }
    // The one allocation that cannot happen earlier: only now the sizes are known.
    if (takes(this->rank())) gathered_->blocks = RecycledMemory(end);
    this->cut(longest);
  }

  void copy_in(std::uint64_t index) override {
    const std::size_t begin = index * this->share();
    const std::size_t end = this->descriptor().num_bytes();
    const std::size_t length = std::min(begin + this->share(), end) - std::min(begin, end);
    if (length > 0) {
      std::memcpy(this->outgoing(this->rank(), index), in_->data() + begin, length);
    }
    for (int member = 0; member < this->size(); ++member) {
      this->send(member, index, takes(member) ? length : 0);
    }
  }

  void copy_out(std::uint64_t index) override {
    if (!takes(this->rank())) return;
    for (int member = 0; member < this->size(); ++member) {
      const auto which = static_cast<std::size_t>(member);
      const std::size_t begin = gathered_->begin_of(which) + index * this->share();
      const std::size_t end = gathered_->ends[which];
      if (begin >= end) continue;
      std::memcpy(gathered_->blocks.data() + begin, this->incoming(member, index),
                  std::min(this->share(), end - begin));
    }
  }

 private:
  bool takes(int member) const { return this->descriptor().is_root(member); }

  std::shared_ptr<GatherInput> in_;
  std::shared_ptr<Gathered> gathered_;
};

}  // namespace tnt::comm
