#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tnt/comm/algorithm/call_label.hpp"
#include "tnt/comm/algorithm/descriptor.hpp"
#include "tnt/comm/transport/segment.hpp"

namespace tnt::comm {

/// Size and place of a channel inside a segment.
struct ChannelLayout {
  std::size_t offset = 0;        ///< of the channel's bytes in each part; multiple of 64
  std::size_t window_bytes = 0;  ///< multiple of 64
  std::size_t depth = 1;         ///< steps that may be posted and unfinished

  std::size_t num_windows() const { return 2 * depth; }
  std::size_t num_bytes() const;
};

/// Where the arrays of a call lie, if all members of the group can reach them:
/// the number of a shared block and the offset in bytes.
struct SharedPlaces {
  std::uint64_t in_block = 0;
  std::uint64_t in_offset = 0;
  std::uint64_t out_block = 0;
  std::uint64_t out_offset = 0;
};

/// What a rank says at the first step of a call.
struct Posting {
  Descriptor descriptor;
  bool is_shared = false;  ///< the places are given, and nothing is in the window
  SharedPlaces places;
};

/// One independent stream of collectives of a group, for ranks that can read
/// each other's memory.
///
/// A channel is a sequence of *steps*, numbered from 0 on every rank alike. In
/// step s a rank
///   1. copies its input into its window s mod 2d (d: the depth) and *posts* s,
///   2. waits until all others have posted s; their windows can be read now,
///   3. reduces what is its to reduce and says so (`reduced`),
///   4. waits for what the others reduce and copies it: s is *finished*.
///
/// Windows need no counter of their own to be reused. A rank posts s only
/// after it has finished s-d. So when it has finished step s-d, everybody had
/// posted s-d and hence finished s-2d: nobody reads the window of s-2d any
/// more, which is the one that step s is about to fill.
///
/// A short message should cross between two cores in as few cache lines as
/// possible. So a post is one line with the number of the step and the
/// descriptor, next to the window, which the others look at. The note of a call
/// is told only when its first step was posted by all and the calls differ.
///
/// Windows change hands: the one that a rank fills was filled by its neighbour
/// the last time, and read by this rank. A core that writes again to a line
/// which it wrote before, and which others have read since, has to ask them
/// all to drop it (measured: 28 ns per line and no overlap, 2 GB/s). For a core
/// that has read the line last it costs next to nothing (40 GB/s). The argument
/// above holds as it is, since it is about everybody.
///
/// With three members and more only the neighbour has read all of it. Where
/// every member has something else to say to every other, a step therefore uses
/// *rooms* instead of windows: each belongs to two members, of whom one asks
/// and the other one answers in the same place. So whoever writes to a room is
/// the one who has read it last, the next time as well.
///
/// Threads: one at a time.
class Channel {
 public:
  /// What precedes each window.
  static constexpr std::size_t kSlotBytes = 256;

  Channel(std::shared_ptr<Segment> segment, const ChannelLayout& layout);

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::size_t window_bytes() const { return layout_.window_bytes; }
  std::size_t depth() const { return layout_.depth; }

  std::byte* window(std::uint64_t step);
  const std::byte* window_of(int member, std::uint64_t step) const;

  /// Bytes of a room, a multiple of 64; the windows are too small if it is 0.
  std::size_t room_bytes() const;
  /// Where `asker` writes before it posts the step, and `answerer` before it has
  /// `reduced`.
  std::byte* room(int asker, int answerer, std::uint64_t step) const;

  /// To be called before the post() of the same step.
  void describe(std::uint64_t step, const Posting& posting);
  const Descriptor& descriptor_of(int member, std::uint64_t step) const;
  Posting posting_of(int member, std::uint64_t step) const;

  /// Tells the others the note of the call that began with the step; at most
  /// kMaxNoteBytes of it.
  void tell_note(std::uint64_t step, std::string_view note);
  bool has_told_note(int member, std::uint64_t step) const;
  std::string note_of(int member, std::uint64_t step) const;  ///< "" until it is told

  /// Lets the others see what this rank has written, and wakes who sleeps.
  void post(std::uint64_t step);
  void publish_reduced(std::uint64_t step);

  /// The same without waking anybody, which is to follow by wake_others().
  void post_quietly(std::uint64_t step);
  void wake_others() { segment_->wake_others(); }

  bool has_posted(int member, std::uint64_t step) const;
  bool have_all_posted(std::uint64_t step) const;
  bool have_all_reduced(std::uint64_t step) const;

  /// Members that have not posted (not reduced) the step, this rank aside.
  std::vector<int> missing_posts(std::uint64_t step) const;
  std::vector<int> missing_reductions(std::uint64_t step) const;
  std::vector<int> missing_notes(std::uint64_t step) const;

 private:
  struct Slot;

  /// Where the slots of a step are in all parts, and how far parts have been handed
  /// on. Computed each time: threads that share a group may ask at once.
  struct Turn {
    std::size_t offset;
    std::size_t num_handed_on;
  };

  Turn turn_of(std::uint64_t step) const;
  std::byte* slot_data(int member, std::uint64_t step) const;
  Slot& slot_of(int member, std::uint64_t step) const;
  bool has_reduced(int member, std::uint64_t step) const;

  std::shared_ptr<Segment> segment_;  // operations may outlive the object they belong to
  int rank_;
  int size_;
  ChannelLayout layout_;
  std::vector<std::byte*> parts_;
};

}  // namespace tnt::comm
