#include "tnt/comm/algorithm/channel.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

namespace tnt::comm {

/// What precedes a window. The step and what is said at the first step of a call
/// share a line.
struct alignas(64) Channel::Slot {
  std::array<char, kMaxNoteBytes> note;
  alignas(64) std::atomic<std::uint64_t> num_posted;  // steps
  Descriptor descriptor;
  std::uint32_t is_shared;
  std::uint32_t note_bytes;
  alignas(64) std::atomic<std::uint64_t> num_reduced;
  SharedPlaces places;
  std::atomic<std::uint64_t> num_told;  // steps, as far as notes are concerned
};

std::size_t ChannelLayout::num_bytes() const {
  return num_windows() * (Channel::kSlotBytes + window_bytes);
}

Channel::Channel(std::shared_ptr<Segment> segment, const ChannelLayout& layout)
    : segment_(std::move(segment)),
      rank_(segment_->rank()),
      size_(segment_->size()),
      layout_(layout) {
  static_assert(sizeof(Slot) == kSlotBytes && offsetof(Slot, num_posted) == kMaxNoteBytes &&
                offsetof(Slot, num_reduced) == kMaxNoteBytes + 64);
  for (int part = 0; part < size_; ++part) {
    parts_.push_back(part == rank_ ? segment_->local() : segment_->writable_peer(part));
  }
}

Channel::Turn Channel::turn_of(std::uint64_t step) const {
  const std::size_t slot = step % layout_.num_windows();
  // Every time a slot is used, the members' parts are handed on by one.
  const std::uint64_t num_uses = step / layout_.num_windows();
  return {.offset = layout_.offset + slot * (kSlotBytes + layout_.window_bytes),
          .num_handed_on = num_uses % parts_.size()};
}

std::byte* Channel::slot_data(int member, std::uint64_t step) const {
  const Turn turn = turn_of(step);
  std::size_t part = static_cast<std::size_t>(member) + turn.num_handed_on;
  if (part >= parts_.size()) part -= parts_.size();
  return parts_[part] + turn.offset;
}

Channel::Slot& Channel::slot_of(int member, std::uint64_t step) const {
  return *reinterpret_cast<Slot*>(slot_data(member, step));
}

std::byte* Channel::window(std::uint64_t step) {
  return slot_data(rank(), step) + kSlotBytes;
}

const std::byte* Channel::window_of(int member, std::uint64_t step) const {
  return slot_data(member, step) + kSlotBytes;
}

std::size_t Channel::room_bytes() const {
  constexpr std::size_t kCacheLine = 64;
  const std::size_t share = layout_.window_bytes / static_cast<std::size_t>(size());
  return share / kCacheLine * kCacheLine;
}

std::byte* Channel::room(int asker, int answerer, std::uint64_t step) const {
  return parts_[static_cast<std::size_t>(asker)] + turn_of(step).offset + kSlotBytes +
         static_cast<std::size_t>(answerer) * room_bytes();
}

void Channel::describe(std::uint64_t step, const Posting& posting) {
  Slot& slot = slot_of(rank(), step);
  slot.descriptor = posting.descriptor;
  slot.is_shared = posting.is_shared ? 1 : 0;
  if (posting.is_shared) slot.places = posting.places;
}

const Descriptor& Channel::descriptor_of(int member, std::uint64_t step) const {
  return slot_of(member, step).descriptor;
}

Posting Channel::posting_of(int member, std::uint64_t step) const {
  const Slot& slot = slot_of(member, step);
  Posting result{.descriptor = slot.descriptor, .is_shared = slot.is_shared != 0, .places = {}};
  if (result.is_shared) result.places = slot.places;
  return result;
}

void Channel::tell_note(std::uint64_t step, std::string_view note) {
  Slot& slot = slot_of(rank(), step);
  const std::size_t note_bytes = std::min(note.size(), slot.note.size());
  slot.note_bytes = static_cast<std::uint32_t>(note_bytes);
  if (note_bytes > 0) std::memcpy(slot.note.data(), note.data(), note_bytes);
  slot.num_told.store(step + 1, std::memory_order_release);
  wake_others();
}

bool Channel::has_told_note(int member, std::uint64_t step) const {
  return slot_of(member, step).num_told.load(std::memory_order_acquire) > step;
}

std::string Channel::note_of(int member, std::uint64_t step) const {
  if (!has_told_note(member, step)) return {};
  const Slot& slot = slot_of(member, step);
  return {slot.note.data(), std::min<std::size_t>(slot.note_bytes, slot.note.size())};
}

void Channel::post_quietly(std::uint64_t step) {
  slot_of(rank(), step).num_posted.store(step + 1, std::memory_order_release);
}

void Channel::post(std::uint64_t step) {
  post_quietly(step);
  wake_others();
}

void Channel::publish_reduced(std::uint64_t step) {
  slot_of(rank(), step).num_reduced.store(step + 1, std::memory_order_release);
  wake_others();
}

bool Channel::has_posted(int member, std::uint64_t step) const {
  return slot_of(member, step).num_posted.load(std::memory_order_acquire) > step;
}

bool Channel::has_reduced(int member, std::uint64_t step) const {
  return slot_of(member, step).num_reduced.load(std::memory_order_acquire) > step;
}

bool Channel::have_all_posted(std::uint64_t step) const {
  for (int member = 0; member < size(); ++member) {
    if (member != rank() && !has_posted(member, step)) return false;
  }
  return true;
}

bool Channel::have_all_reduced(std::uint64_t step) const {
  for (int member = 0; member < size(); ++member) {
    if (member != rank() && !has_reduced(member, step)) return false;
  }
  return true;
}

std::vector<int> Channel::missing_posts(std::uint64_t step) const {
  std::vector<int> result;
  for (int member = 0; member < size(); ++member) {
    if (member != rank() && !has_posted(member, step)) result.push_back(member);
  }
  return result;
}

std::vector<int> Channel::missing_reductions(std::uint64_t step) const {
  std::vector<int> result;
  for (int member = 0; member < size(); ++member) {
    if (member != rank() && !has_reduced(member, step)) result.push_back(member);
  }
  return result;
}

std::vector<int> Channel::missing_notes(std::uint64_t step) const {
  std::vector<int> result;
  for (int member = 0; member < size(); ++member) {
    if (member != rank() && !has_told_note(member, step)) result.push_back(member);
  }
  return result;
}

}  // namespace tnt::comm
