#include "tnt/comm/algorithm/channel.hpp"

#include <atomic>
#include <type_traits>
#include <utility>

namespace tnt::comm {

/// The line of a part that says how far its rank has reduced.
struct alignas(64) Channel::Progress {
  std::atomic<std::uint64_t> num_reduced;
};

/// What precedes a window: one line for the step and the descriptor, and one
/// that is read for shared arrays only.
struct alignas(64) Channel::Post {
  std::atomic<std::uint64_t> num_posted;
  Descriptor descriptor;
  std::uint32_t is_shared;
  alignas(64) SharedPlaces places;
};

std::size_t ChannelLayout::num_bytes() const {
  constexpr std::size_t kCacheLine = 64;
  return kCacheLine + num_windows() * (2 * kCacheLine + window_bytes);
}

Channel::Channel(std::shared_ptr<Segment> segment, const ChannelLayout& layout)
    : segment_(std::move(segment)), layout_(layout) {
  static_assert(std::is_trivially_copyable_v<Descriptor>);
  static_assert(sizeof(Progress) == 64 && sizeof(Post) == 128 && offsetof(Post, places) == 64);
}

std::size_t Channel::slot_offset(std::uint64_t step) const {
  const std::size_t slot = step % layout_.num_windows();
  return layout_.offset + sizeof(Progress) + slot * (sizeof(Post) + layout_.window_bytes);
}

std::size_t Channel::window_offset(std::uint64_t step) const {
  return slot_offset(step) + sizeof(Post);
}

const Channel::Post& Channel::post_of(int member, std::uint64_t step) const {
  return *reinterpret_cast<const Post*>(part_of(member) + slot_offset(step));
}

void Channel::describe(std::uint64_t step, const Posting& posting) {
  auto& post = *reinterpret_cast<Post*>(segment_->local() + slot_offset(step));
  post.descriptor = posting.descriptor;
  post.is_shared = posting.is_shared ? 1 : 0;
  if (posting.is_shared) post.places = posting.places;
}

const Descriptor& Channel::descriptor_of(int member, std::uint64_t step) const {
  return post_of(member, step).descriptor;
}

Posting Channel::posting_of(int member, std::uint64_t step) const {
  const Post& post = post_of(member, step);
  Posting result{.descriptor = post.descriptor, .is_shared = post.is_shared != 0, .places = {}};
  if (result.is_shared) result.places = post.places;
  return result;
}

void Channel::post_quietly(std::uint64_t step) {
  auto& post = *reinterpret_cast<Post*>(segment_->local() + slot_offset(step));
  post.num_posted.store(step + 1, std::memory_order_release);
}

void Channel::post(std::uint64_t step) {
  post_quietly(step);
  wake_others();
}

void Channel::publish_reduced(std::uint64_t step) {
  auto& progress = *reinterpret_cast<Progress*>(segment_->local() + layout_.offset);
  progress.num_reduced.store(step + 1, std::memory_order_release);
  wake_others();
}

bool Channel::has_posted(int member, std::uint64_t step) const {
  return post_of(member, step).num_posted.load(std::memory_order_acquire) > step;
}

bool Channel::has_reduced(int member, std::uint64_t step) const {
  const auto& progress = *reinterpret_cast<const Progress*>(part_of(member) + layout_.offset);
  return progress.num_reduced.load(std::memory_order_acquire) > step;
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

}  // namespace tnt::comm
