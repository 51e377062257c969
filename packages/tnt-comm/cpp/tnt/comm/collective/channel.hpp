#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/collective/call_label.hpp"
#include "tnt/comm/collective/descriptor.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// Elements of a vector that one member reduces for all. Boundaries lie on
/// cache lines, so that two ranks never write to the same one.
inline Range chunk_of(std::size_t count, DType dtype, int num_members, int member) {
  return part_of(count, static_cast<std::size_t>(num_members), static_cast<std::size_t>(member),
                 kCacheLineBytes / size_of(dtype));
}

/// Size and place of a channel inside a segment.
struct ChannelLayout {
  std::size_t offset = 0;      ///< of the channel's bytes in each part; multiple of 64
  std::size_t slot_bytes = 0;  ///< multiple of 64
  std::size_t depth = 1;       ///< blocks that may be posted and unfinished

  std::size_t num_slots() const { return 2 * depth; }
  std::size_t num_bytes() const;
};

/// Where the arrays of a call lie, if all members of the group can reach them:
/// the number of a shared region and the offset in bytes.
struct SharedOffsets {
  std::uint64_t in_region = 0;
  std::uint64_t in_offset = 0;
  std::uint64_t out_region = 0;
  std::uint64_t out_offset = 0;
};

/// What a rank says at the first block of a call.
struct Posting {
  Descriptor descriptor;
  bool is_shared = false;  ///< the places are given, and nothing is in the slot
  SharedOffsets places;
};

/// Staging slots of ranks that can read each other's memory: of one stream of calls, of one
/// bucket or of several that take turns, or of the ranks of a host in a hierarchical allreduce.
///
/// A channel is a sequence of *blocks*, numbered from 0 on every rank alike. In
/// block s a rank
///   1. copies its input into its slot s mod 2d (d: the depth) and *posts* s,
///   2. waits until all others have posted s; their slots can be read now,
///   3. reduces what is its to reduce and says so (`reduced`),
///   4. waits for what the others reduce and copies it: s is *finished*.
///
/// Slots need no counter of their own to be reused. A rank posts s only
/// after it has finished s-d. So when it has finished block s-d, everybody had
/// posted s-d and hence finished s-2d: nobody reads the slot of s-2d any
/// more, which is the one that block s is about to fill.
///
/// A short message should cross between two cores in as few cache lines as
/// possible. So a post is one line with the number of the block and the
/// descriptor, next to the slot, which the others look at. The note of a call
/// is told only when its first block was posted by all and the calls differ.
///
/// A bucket of a hierarchical allreduce lies in memory of its own, so that its sum can be lent: its
/// channel has slots without bytes, and a post says where the bucket is.
///
/// Slots change hands: the one that a rank fills was filled by its neighbour
/// the last time, and read by this rank. A core that writes again to a line
/// which it wrote before, and which others have read since, has to ask them
/// all to drop it (measured: 28 ns per line and no overlap, 2 GB/s). For a core
/// that has read the line last it costs next to nothing (40 GB/s). The argument
/// above holds as it is, since it is about everybody.
///
/// With three members and more only the neighbour has read all of it. Where
/// every member has something else to say to every other, a block therefore uses
/// *pair slots* instead of slots: each belongs to two members, of whom one asks
/// and the other one answers in the same bytes. So whoever writes to a pair slot is
/// the one who has read it last, the next time as well.
///
/// Threads: one at a time for each block.
class Channel {
 public:
  /// What precedes each slot.
  static constexpr std::size_t kHeaderBytes = 256;

  Channel(std::shared_ptr<Segment> segment, const ChannelLayout& layout);

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::size_t slot_bytes() const { return layout_.slot_bytes; }
  std::size_t depth() const { return layout_.depth; }

  std::byte* slot(std::uint64_t block) const { return slot_of(rank_, block); }
  std::byte* slot_of(int member, std::uint64_t block) const;

  /// Bytes of a pair slot, a multiple of 64; the slots are too small if it is 0.
  std::size_t pair_slot_bytes() const;
  /// Where `asker` writes before it posts the block, and `answerer` before it has
  /// `reduced`.
  std::byte* pair_slot(int asker, int answerer, std::uint64_t block) const;

  /// To be called before the post() of the same block.
  void describe(std::uint64_t block, const Posting& posting);
  const Descriptor& descriptor_of(int member, std::uint64_t block) const;
  Posting posting_of(int member, std::uint64_t block) const;

  /// Instead of describe(): which of two slots in other memory holds what this rank has packed.
  void say_packed(std::uint64_t block, std::size_t slot);
  std::size_t packed_slot_of(int member, std::uint64_t block) const;

  /// Tells the others the note of the call that began with the block; at most
  /// kMaxNoteBytes of it.
  void tell_note(std::uint64_t block, std::string_view note);
  bool has_told_note(int member, std::uint64_t block) const;
  std::string note_of(int member, std::uint64_t block) const;  ///< "" until it is told

  /// Lets the others see what this rank has written, and wakes who sleeps.
  void post(std::uint64_t block);
  void publish_reduced(std::uint64_t block);

  /// The same without waking anybody, which is to follow by wake_others().
  void post_quietly(std::uint64_t block);
  void wake_others() { segment_->wake_others(); }

  bool has_posted(int member, std::uint64_t block) const;
  // Of the other members.
  bool have_all_posted(std::uint64_t block) const;
  bool have_all_reduced(std::uint64_t block) const;

  /// Members that have not posted (not reduced) the block, this rank aside.
  std::vector<int> missing_posts(std::uint64_t block) const;
  std::vector<int> missing_reductions(std::uint64_t block) const;
  std::vector<int> missing_notes(std::uint64_t block) const;

 private:
  struct SlotHeader;

  /// Where the slots of a block are in all parts, and how far parts have been handed
  /// on. Computed each time: threads that share a group may ask at once.
  struct SlotPosition {
    std::size_t offset;
    std::size_t num_handed_on;
  };

  SlotPosition position_of(std::uint64_t block) const;
  std::byte* slot_begin(int member, std::uint64_t block) const;
  SlotHeader& header_of(int member, std::uint64_t block) const;
  bool has_reduced(int member, std::uint64_t block) const;

  using Look = bool (Channel::*)(int member, std::uint64_t block) const;
  template <Look has_done>
  bool have_others(std::uint64_t block) const;
  template <Look has_done>
  std::vector<int> missing(std::uint64_t block) const;

  std::shared_ptr<Segment> segment_;  // operations may outlive the object they belong to
  int rank_;
  int size_;
  ChannelLayout layout_;
  std::vector<std::byte*> parts_;
};

}  // namespace tnt::comm
