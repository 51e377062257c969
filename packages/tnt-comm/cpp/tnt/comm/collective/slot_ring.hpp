#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tnt/comm/collective/descriptor.hpp"
#include "tnt/comm/collective/shared_regions.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// Elements of a vector that one member reduces for all. Boundaries lie on
/// cache lines, so that two ranks never write to the same one.
inline Range chunk_of(std::size_t count, DType dtype, int num_members, int member) {
  return part_of(count, static_cast<std::size_t>(num_members), static_cast<std::size_t>(member),
                 kCacheLineBytes / size_of(dtype));
}

struct SlotLayout {
  static constexpr std::size_t kHeaderBytes = 256;  ///< what precedes each slot

  std::size_t offset = 0;      ///< of the ring's bytes in each part; multiple of 64
  std::size_t slot_bytes = 0;  ///< multiple of 64
  std::size_t depth = 1;       ///< blocks that may be posted and unfinished

  std::size_t num_slots() const { return 2 * depth; }
  std::size_t num_bytes() const { return num_slots() * (kHeaderBytes + slot_bytes); }
};

/// Where the arrays of a call lie, if all members of the group can reach them.
struct SharedOffsets {
  RegionOffset in;
  RegionOffset out;
};

/// Staging slots of ranks that can read each other's memory: of one stream of calls, of one
/// bucket or of several that take turns, or of the ranks of a host in a hierarchical allreduce.
///
/// A ring is a sequence of *blocks*, numbered from 0 on every rank alike. In
/// block s a rank
///   1. copies its input into its slot s mod 2d (d: the depth) and *posts* s,
///   2. waits until all others have posted s; their slots can be read now,
///   3. reduces what is its to reduce and says so (`reduced`),
///   4. waits for what the others reduce and copies it: s is *finished*.
///
/// Slots need no counter of their own to be reused. A rank posts s only after it has finished s-d.
/// So when it has finished block s-d, everybody had posted s-d and hence finished s-2d: nobody
/// reads the slot of s-2d any more, which is the one that block s is about to fill.
///
/// A short message should cross between two cores in as few cache lines as
/// possible. So a post is one line with the number of the block and the
/// descriptor, next to the slot, which the others look at. The note of a call
/// is told only when its first block was posted by all and the calls differ.
///
/// A bucket of a hierarchical allreduce lies in memory of its own, so that its sum can be lent: its
/// ring has slots without bytes, and a post says where the bucket is.
///
/// Slots change hands: the one that a rank fills was filled by its neighbour the last time, and
/// read by this rank. A core that writes again to a line which it wrote before, and which others
/// have read since, has to ask them all to drop it (measured: 28 ns per line and no overlap, 2
/// GB/s). For a core that has read the line last it costs next to nothing (40 GB/s). The argument
/// above holds as it is, since it is about everybody.
///
/// With three members and more only the neighbour has read all of it. Where every member has
/// something else to say to every other, a block therefore uses *pair slots* instead of slots: each
/// belongs to two members, of whom one asks and the other one answers in the same bytes. So whoever
/// writes to a pair slot is the one who has read it last, the next time as well.
///
/// Threads: one at a time for each block.
class SlotRing {
 public:
  SlotRing(std::shared_ptr<Segment> segment, const SlotLayout& layout)
      : segment_(std::move(segment)),
        rank_(segment_->rank()),
        size_(segment_->size()),
        layout_(layout) {
    static_assert(sizeof(SlotHeader) == kHeaderBytes &&
                  offsetof(SlotHeader, num_posted) == kMaxNoteBytes &&
                  offsetof(SlotHeader, num_reduced) == kMaxNoteBytes + kCacheLineBytes);
    for (int part = 0; part < size_; ++part) {
      parts_.push_back(part == rank_ ? segment_->local() : segment_->writable_peer(part));
    }
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::size_t slot_bytes() const { return layout_.slot_bytes; }
  std::size_t depth() const { return layout_.depth; }
  std::byte* slot(std::uint64_t block) const { return slot_of(rank_, block); }
  std::byte* slot_of(int member, std::uint64_t block) const {
    return reinterpret_cast<std::byte*>(&header_of(member, block)) + kHeaderBytes;
  }

  /// Bytes of a pair slot, a multiple of 64; the slots are too small if it is 0.
  std::size_t pair_slot_bytes() const {
    return layout_.slot_bytes / parts_.size() / kCacheLineBytes * kCacheLineBytes;
  }
  /// Where `asker` writes before it posts the block, and `answerer` before it has `reduced`.
  std::byte* pair_slot(int asker, int answerer, std::uint64_t block) const {
    return at(parts_, asker) + offset_of(block) + kHeaderBytes +
           static_cast<std::size_t>(answerer) * pair_slot_bytes();
  }

  /// What this rank says at the first block of a call, before the post() of the same block. With
  /// `offsets`, nothing is in the slot.
  void describe(std::uint64_t block, const Descriptor& descriptor,
                const SharedOffsets* offsets = nullptr) {
    SlotHeader& header = header_of(rank_, block);
    header.descriptor = descriptor;
    header.is_shared = offsets != nullptr ? 1 : 0;
    if (offsets != nullptr) header.offsets = *offsets;
  }
  const Descriptor& descriptor_of(int member, std::uint64_t block) const {
    return header_of(member, block).descriptor;
  }
  std::optional<SharedOffsets> shared_offsets_of(int member, std::uint64_t block) const {
    const SlotHeader& header = header_of(member, block);
    return header.is_shared != 0 ? std::optional(header.offsets) : std::nullopt;
  }

  /// Instead of describe(): which slot of other memory holds what this rank has packed.
  void say_packed(std::uint64_t block, std::uint64_t slot) {
    header_of(rank_, block).packed_slot = slot;
  }
  /// To be checked, as all that others say.
  std::uint64_t packed_slot_of(int member, std::uint64_t block) const {
    return header_of(member, block).packed_slot;
  }

  /// Tells the others the note of the call that began with the block; at most kMaxNoteBytes of it.
  void tell_note(std::uint64_t block, std::string_view note) {
    SlotHeader& header = header_of(rank_, block);
    const std::size_t note_bytes = std::min(note.size(), header.note.size());
    header.note_bytes = static_cast<std::uint32_t>(note_bytes);
    if (note_bytes > 0) std::memcpy(header.note.data(), note.data(), note_bytes);
    publish(&SlotHeader::num_told, block);
  }
  /// "" until it is told.
  std::string note_of(int member, std::uint64_t block) const {
    if (!has_told_note(member, block)) return {};
    const SlotHeader& header = header_of(member, block);
    return {header.note.data(), std::min<std::size_t>(header.note_bytes, header.note.size())};
  }

  /// Lets the others see what this rank has written, and wakes who sleeps.
  void post(std::uint64_t block) { publish(&SlotHeader::num_posted, block); }
  void publish_reduced(std::uint64_t block) { publish(&SlotHeader::num_reduced, block); }

  /// The same as post() without waking anybody, which is to follow by wake_others().
  void post_quietly(std::uint64_t block) {
    header_of(rank_, block).num_posted.store(block + 1, std::memory_order_release);
  }
  void wake_others() { segment_->wake_others(); }

  bool has_posted(int member, std::uint64_t block) const {
    return has_done(&SlotHeader::num_posted, member, block);
  }
  bool has_told_note(int member, std::uint64_t block) const {
    return has_done(&SlotHeader::num_told, member, block);
  }
  bool have_all_posted(std::uint64_t block) const {
    return have_others(&SlotHeader::num_posted, block);
  }
  bool have_all_reduced(std::uint64_t block) const {
    return have_others(&SlotHeader::num_reduced, block);
  }

  /// Members that have not posted (not reduced) the block, this rank aside.
  std::vector<int> missing_posts(std::uint64_t block) const {
    return missing(&SlotHeader::num_posted, block);
  }
  std::vector<int> missing_reductions(std::uint64_t block) const {
    return missing(&SlotHeader::num_reduced, block);
  }
  std::vector<int> missing_notes(std::uint64_t block) const {
    return missing(&SlotHeader::num_told, block);
  }

 private:
  /// What precedes a slot. The block and what is said at the first block of a call share a line.
  struct alignas(kCacheLineBytes) SlotHeader {
    std::array<char, kMaxNoteBytes> note;
    alignas(kCacheLineBytes) std::atomic<std::uint64_t> num_posted;  // blocks
    Descriptor descriptor;
    std::uint32_t is_shared;
    std::uint32_t note_bytes;
    alignas(kCacheLineBytes) std::atomic<std::uint64_t> num_reduced;
    SharedOffsets offsets;
    std::uint64_t packed_slot;
    std::atomic<std::uint64_t> num_told;  // blocks, as far as notes are concerned
  };
  using Counter = std::atomic<std::uint64_t> SlotHeader::*;
  static constexpr std::size_t kHeaderBytes = SlotLayout::kHeaderBytes;

  std::size_t offset_of(std::uint64_t block) const {
    return layout_.offset + block % layout_.num_slots() * (kHeaderBytes + layout_.slot_bytes);
  }
  SlotHeader& header_of(int member, std::uint64_t block) const {
    // Every time a slot is used, the members' parts are handed on by one. Computed each time:
    // threads that share a group may ask at once.
    const std::uint64_t num_uses = block / layout_.num_slots();
    std::size_t part = static_cast<std::size_t>(member) + num_uses % parts_.size();
    if (part >= parts_.size()) part -= parts_.size();
    return *reinterpret_cast<SlotHeader*>(parts_[part] + offset_of(block));
  }

  void publish(Counter counter, std::uint64_t block) {
    (header_of(rank_, block).*counter).store(block + 1, std::memory_order_release);
    wake_others();
  }
  bool has_done(Counter counter, int member, std::uint64_t block) const {
    return (header_of(member, block).*counter).load(std::memory_order_acquire) > block;
  }
  bool have_others(Counter counter, std::uint64_t block) const {
    for (int member = 0; member < size_; ++member) {
      if (member != rank_ && !has_done(counter, member, block)) return false;
    }
    return true;
  }
  std::vector<int> missing(Counter counter, std::uint64_t block) const {
    return ranks_where(
        size_, [&](int member) { return member != rank_ && !has_done(counter, member, block); });
  }

  std::shared_ptr<Segment> segment_;  // operations may outlive the object they belong to
  int rank_;
  int size_;
  SlotLayout layout_;
  std::vector<std::byte*> parts_;
};

}  // namespace tnt::comm
