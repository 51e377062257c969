#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "tnt/comm/collective/collectives.hpp"
#include "tnt/comm/kernel/kernels.hpp"

namespace tnt::comm {

/// Broadcast: per block the root copies its next share to where the others, or the ranks that it
/// sends to, find it, and everybody copies it out of there.
///
/// Blocks: ceil(bytes / share). In shared memory one round each; the others post too, so
/// that the root knows that its slots are free. For messages see broadcast_schedule().
template <typename Exchange>
class Broadcast final : public Exchange {
 public:
  Broadcast(const auto& pipeline, const Descriptor& descriptor, const CallArrays& arrays)
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
    return block_of(index, this->share(), this->descriptor().num_bytes());
  }

  const std::byte* in_;
  std::byte* out_;
};

/// Allgather of parts of different sizes; and gather, which the root alone takes.
///
/// Per block every rank offers the next share of its part to all, and takes what the others offer.
/// The sizes are known when all have said what they call; they decide where everything goes, and
/// the number of blocks: the longest part's.
///
/// Blocks: ceil(longest part / share). In shared memory one round each; every byte is copied once
/// in and n times out. By messages n-1 of each rank; every rank sends its part n-1 times, as it
/// must be received, and only the notification once its end is reached, or to who does not take it.
template <typename Exchange>
class Allgather final : public Exchange {
 public:
  Allgather(const auto& pipeline, const Descriptor& descriptor, CallArrays arrays)
      : Exchange(pipeline, descriptor, SentParts::same),
        in_(static_cast<const std::byte*>(arrays.in)),
        owner_(std::move(arrays.owner)),
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
    const Range bytes = block_of(index, this->share(), this->descriptor().num_bytes());
    if (bytes.size() > 0) {
      std::memcpy(this->outgoing(this->rank(), index), in_ + bytes.begin, bytes.size());
    }
    for (int member = 0; member < this->size(); ++member) {
      this->send(member, index, takes(member) ? bytes.size() : 0);
    }
  }

  void copy_out(std::uint64_t index) override {
    if (!takes(this->rank())) return;
    for (int member = 0; member < this->size(); ++member) {
      const auto which = static_cast<std::size_t>(member);
      const Range bytes = block_of(index, this->share(), gathered_->size_of(which));
      if (bytes.size() == 0) continue;
      std::memcpy(gathered_->blocks.data() + gathered_->begin_of(which) + bytes.begin,
                  this->incoming(member, index), bytes.size());
    }
  }

 private:
  bool takes(int member) const { return this->descriptor().is_root(member); }

  const std::byte* in_;
  std::shared_ptr<const void> owner_;
  std::shared_ptr<Gathered> gathered_;
};

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
  PartsWork(const auto& pipeline, const Descriptor& descriptor, const CallArrays& arrays)
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

  void copy_in(std::uint64_t index) final {
    const bool has_array = this->descriptor().is_root(this->rank());
    for (int member = 0; member < this->size(); ++member) {
      const Range& part = at(parts_, member);
      const Range bytes = has_array ? block(index, member) : Range{};
      if (bytes.size() > 0) {
        std::memcpy(this->outgoing(member, index), in_ + part.begin + bytes.begin, bytes.size());
      }
      this->send(member, index, bytes.size());
    }
  }

 protected:
  /// The bytes of the member's part that the block brings, counted from the part's begin.
  Range block(std::uint64_t index, int member) const {
    return block_of(index, this->share(), at(parts_, member).size());
  }
  std::size_t num_own_bytes() const { return at(parts_, this->rank()).size(); }
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
  using PartsWork<Exchange>::PartsWork;

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
  ReduceScatter(const auto& pipeline, const Descriptor& descriptor, const CallArrays& arrays)
      : PartsWork<Exchange>(pipeline, descriptor, arrays),
        sources_(static_cast<std::size_t>(this->size())),
        reducer_(descriptor.dtype, descriptor.op, this->tree()) {}

  void copy_out(std::uint64_t index) override {
    const Range bytes = this->block(index, this->rank());
    for (int member = 0; member < this->size(); ++member) {
      at(sources_, member) = this->incoming(member, index);
    }
    reducer_.reduce(this->out() + bytes.begin, sources_.data(), sources_.size(),
                    bytes.size() / size_of(this->descriptor().dtype));
  }

 private:
  std::vector<const std::byte*> sources_;
  TreeReducer reducer_;
};

/// Any collective but an allreduce. These exist once for all kinds of memory: each is a work over
/// the *exchange* of a World, by which a block gets from member to member:
///   - cut(longest): how many blocks there are, given the bytes of the longest part;
///   - share(): bytes of a part that a block takes at most, a multiple of 64;
///   - outgoing(member, index), send(member, index, num_bytes): where what the member is to get
///     is put, and how much that is. In that order, and in copy_in() for every member;
///   - incoming(member, index): where what the member has sent can be read, in copy_out();
///   - rank(), size(), tree(), descriptor(), and, from on_match() on, count_of(member).
/// World::Exchange takes from everybody to everybody, World::Tree from the root to all,
/// World::Barrier has no data, and World::Call<Work> is the operation.
template <typename World>
std::shared_ptr<CollectiveOperation> make_exchange(std::shared_ptr<typename World::Stream> stream,
                                                   const Descriptor& descriptor,
                                                   CallArrays arrays) {
  using Exchange = typename World::Exchange;
  const auto make = [&]<typename Work>(std::type_identity<Work>) {
    return std::make_shared<typename World::template Call<Work>>(std::move(stream), descriptor,
                                                                 std::move(arrays));
  };
  switch (descriptor.kind) {
    case CollectiveKind::barrier:
      return make(std::type_identity<typename World::Barrier>());
    case CollectiveKind::broadcast:
      return make(std::type_identity<Broadcast<typename World::Tree>>());
    case CollectiveKind::allgather:
    case CollectiveKind::gather:
    case CollectiveKind::creation:
      return make(std::type_identity<Allgather<Exchange>>());
    case CollectiveKind::reduce_scatter:
      return make(std::type_identity<ReduceScatter<Exchange>>());
    case CollectiveKind::alltoall:
    case CollectiveKind::scatter:
      return make(std::type_identity<Alltoall<Exchange>>());
    case CollectiveKind::allreduce:
      break;
  }
  throw Error(ErrorKind::comm, "unknown kind of collective");
}

}  // namespace tnt::comm
