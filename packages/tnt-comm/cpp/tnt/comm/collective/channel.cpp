#include "tnt/comm/collective/channel.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

namespace tnt::comm {

/// What precedes a slot. The block and what is said at the first block of a call
/// share a line.
struct alignas(64) Channel::SlotHeader {
  std::array<char, kMaxNoteBytes> note;
  alignas(64) std::atomic<std::uint64_t> num_posted;  // blocks
  Descriptor descriptor;
  std::uint32_t is_shared;
  std::uint32_t note_bytes;
  alignas(64) std::atomic<std::uint64_t> num_reduced;
  SharedOffsets places;
  std::atomic<std::uint64_t> num_told;  // blocks, as far as notes are concerned
};

std::size_t ChannelLayout::num_bytes() const {
  return num_slots() * (Channel::kHeaderBytes + slot_bytes);
}

Channel::Channel(std::shared_ptr<Segment> segment, const ChannelLayout& layout)
    : segment_(std::move(segment)),
      rank_(segment_->rank()),
      size_(segment_->size()),
      layout_(layout) {
  static_assert(sizeof(SlotHeader) == kHeaderBytes &&
                offsetof(SlotHeader, num_posted) == kMaxNoteBytes &&
                offsetof(SlotHeader, num_reduced) == kMaxNoteBytes + 64);
  for (int part = 0; part < size_; ++part) {
    parts_.push_back(part == rank_ ? segment_->local() : segment_->writable_peer(part));
  }
}

Channel::SlotPosition Channel::position_of(std::uint64_t block) const {
  const std::size_t slot = block % layout_.num_slots();
  // Every time a slot is used, the members' parts are handed on by one.
  const std::uint64_t num_uses = block / layout_.num_slots();
  return {.offset = layout_.offset + slot * (kHeaderBytes + layout_.slot_bytes),
          .num_handed_on = num_uses % parts_.size()};
}

std::byte* Channel::slot_begin(int member, std::uint64_t block) const {
  const SlotPosition position = position_of(block);
  std::size_t part = static_cast<std::size_t>(member) + position.num_handed_on;
  if (part >= parts_.size()) part -= parts_.size();
  return parts_[part] + position.offset;
}

Channel::SlotHeader& Channel::header_of(int member, std::uint64_t block) const {
  return *reinterpret_cast<SlotHeader*>(slot_begin(member, block));
}

std::byte* Channel::slot_of(int member, std::uint64_t block) const {
  return slot_begin(member, block) + kHeaderBytes;
}

std::size_t Channel::pair_slot_bytes() const {
  const std::size_t share = layout_.slot_bytes / static_cast<std::size_t>(size());
  return share / kCacheLineBytes * kCacheLineBytes;
}

std::byte* Channel::pair_slot(int asker, int answerer, std::uint64_t block) const {
  return parts_[static_cast<std::size_t>(asker)] + position_of(block).offset + kHeaderBytes +
         static_cast<std::size_t>(answerer) * pair_slot_bytes();
}

void Channel::describe(std::uint64_t block, const Posting& posting) {
  SlotHeader& header = header_of(rank(), block);
  header.descriptor = posting.descriptor;
  header.is_shared = posting.is_shared ? 1 : 0;
  if (posting.is_shared) header.places = posting.places;
}

const Descriptor& Channel::descriptor_of(int member, std::uint64_t block) const {
  return header_of(member, block).descriptor;
}

Posting Channel::posting_of(int member, std::uint64_t block) const {
  const SlotHeader& header = header_of(member, block);
  Posting result{.descriptor = header.descriptor, .is_shared = header.is_shared != 0, .places = {}};
  if (result.is_shared) result.places = header.places;
  return result;
}

void Channel::say_packed(std::uint64_t block, std::size_t slot) {
  header_of(rank(), block).places.in_region = slot;
}

std::size_t Channel::packed_slot_of(int member, std::uint64_t block) const {
  return header_of(member, block).places.in_region % 2;  // whatever stands there
}

void Channel::tell_note(std::uint64_t block, std::string_view note) {
  SlotHeader& header = header_of(rank(), block);
  const std::size_t note_bytes = std::min(note.size(), header.note.size());
  header.note_bytes = static_cast<std::uint32_t>(note_bytes);
  if (note_bytes > 0) std::memcpy(header.note.data(), note.data(), note_bytes);
  header.num_told.store(block + 1, std::memory_order_release);
  wake_others();
}

bool Channel::has_told_note(int member, std::uint64_t block) const {
  return header_of(member, block).num_told.load(std::memory_order_acquire) > block;
}

std::string Channel::note_of(int member, std::uint64_t block) const {
  if (!has_told_note(member, block)) return {};
  const SlotHeader& header = header_of(member, block);
  return {header.note.data(), std::min<std::size_t>(header.note_bytes, header.note.size())};
}

void Channel::post_quietly(std::uint64_t block) {
  header_of(rank(), block).num_posted.store(block + 1, std::memory_order_release);
}

void Channel::post(std::uint64_t block) {
  post_quietly(block);
  wake_others();
}

void Channel::publish_reduced(std::uint64_t block) {
  header_of(rank(), block).num_reduced.store(block + 1, std::memory_order_release);
  wake_others();
}

bool Channel::has_posted(int member, std::uint64_t block) const {
  return header_of(member, block).num_posted.load(std::memory_order_acquire) > block;
}

bool Channel::has_reduced(int member, std::uint64_t block) const {
  return header_of(member, block).num_reduced.load(std::memory_order_acquire) > block;
}

template <Channel::Look has_done>
bool Channel::have_others(std::uint64_t block) const {
  for (int member = 0; member < size(); ++member) {
    if (member != rank() && !(this->*has_done)(member, block)) return false;
  }
  return true;
}

template <Channel::Look has_done>
std::vector<int> Channel::missing(std::uint64_t block) const {
  std::vector<int> result;
  for (int member = 0; member < size(); ++member) {
    if (member != rank() && !(this->*has_done)(member, block)) result.push_back(member);
  }
  return result;
}

bool Channel::have_all_posted(std::uint64_t block) const {
  return have_others<&Channel::has_posted>(block);
}

bool Channel::have_all_reduced(std::uint64_t block) const {
  return have_others<&Channel::has_reduced>(block);
}

std::vector<int> Channel::missing_posts(std::uint64_t block) const {
  return missing<&Channel::has_posted>(block);
}

std::vector<int> Channel::missing_reductions(std::uint64_t block) const {
  return missing<&Channel::has_reduced>(block);
}

std::vector<int> Channel::missing_notes(std::uint64_t block) const {
  return missing<&Channel::has_told_note>(block);
}

}  // namespace tnt::comm
