#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include "late_delivery.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm::tests {

/// A network to test on: ranks are threads of one process, hosts are made up.
struct Network {
  std::vector<int> hosts;             ///< of each rank; equal ones are next to each other
  bool are_hosts_readable = false;    ///< ranks of one host can read each other's memory
  bool is_late = false;               ///< messages leave and arrive at random later times
  std::size_t most_counters = 65536;  ///< of a segment; GPI-2 has as many
};

/// Rules of the interface that a rank has broken.
struct Violations {
  std::atomic<int> num_unasked{0};      ///< sent without asking for room
  std::atomic<int> num_not_growing{0};  ///< notification values
  std::atomic<int> num_out_of_bounds{0};
  std::atomic<int> num_other_senders{0};  ///< of a notification that has one
};

/// A segment of which nothing can be read but the own part. Checks what the
/// one who uses it must keep to, and keeps here what may stay here.
class PutOnlySegment final : public Segment {
 public:
  PutOnlySegment(std::unique_ptr<Segment> inner, const SegmentRequest& request, bool is_late,
                 Doorbell& doorbell, Violations& violations)
      : inner_(std::move(inner)),
        num_bytes_(request.num_bytes),
        num_notifications_(request.num_notifications),
        only_senders_(request.senders == Senders::one ? num_notifications_ : 0, -1),
        doorbell_(doorbell),
        violations_(violations),
        kept_(request.members.size()),
        room_(request.members.size(), 0),
        sent_(request.members.size() * request.num_notifications, 0),
        random_(static_cast<unsigned>(inner_->rank()) + 1) {
    if (is_late) late_ = std::make_shared<LateDelivery>(inner_);
  }

  const std::shared_ptr<LateDelivery>& late() const { return late_; }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::byte* local() override { return inner_->local(); }
  const std::byte* peer(int) const override { return nullptr; }

  bool has_room(int member, std::size_t num_messages) override {
    const std::lock_guard lock(mutex_);
    if (late_ && random_() % 4 == 0) {
      doorbell_.ring();  // as a transport does whose queues have emptied
      return false;
    }
    room_[static_cast<std::size_t>(member)] = num_messages;
    return true;
  }

  void put(int member, std::size_t to, std::size_t from, std::size_t num_bytes) override {
    take_room(member);
    if (to + num_bytes > num_bytes_ || from + num_bytes > num_bytes_) {
      ++violations_.num_out_of_bounds;
    }
    const std::lock_guard lock(kept_mutex_);
    kept_[static_cast<std::size_t>(member)].emplace_back([=, this] {
      if (late_) {
        late_->put(member, to, from, num_bytes);
      } else {
        inner_->put(member, to, from, num_bytes);
      }
    });
  }

  void notify(int member, NotificationId id, std::uint64_t value) override {
    notify_later(member, id, value);
    send_kept(member);
  }

  void flush() override {
    for (int member = 0; member < size(); ++member) send_kept(member);
  }

  void notify_later(int member, NotificationId id, std::uint64_t value) override {
    take_room(member);
    if (id >= num_notifications_) ++violations_.num_out_of_bounds;
    {
      const std::lock_guard lock(mutex_);
      auto& last = sent_[static_cast<std::size_t>(member) * num_notifications_ + id];
      if (value <= last) ++violations_.num_not_growing;
      last = value;
    }
    const std::lock_guard lock(kept_mutex_);
    kept_[static_cast<std::size_t>(member)].emplace_back([=, this] {
      if (late_) {
        late_->notify(member, id, value);
      } else {
        inner_->notify(member, id, value);
      }
    });
  }

  std::uint64_t poll(int sender, NotificationId id) const override {
    if (!only_senders_.empty()) {
      const std::lock_guard lock(mutex_);
      int& only = only_senders_[id];
      if (only >= 0 && only != sender) ++violations_.num_other_senders;
      only = sender;
    }
    return inner_->poll(sender, id);
  }

 private:
  void send_kept(int member) {
    const std::lock_guard lock(kept_mutex_);
    auto& kept = kept_[static_cast<std::size_t>(member)];
    for (const auto& send : kept) send();
    kept.clear();
  }

  void take_room(int member) {
    const std::lock_guard lock(mutex_);
    std::size_t& room = room_[static_cast<std::size_t>(member)];
    if (room == 0) {
      ++violations_.num_unasked;
    } else {
      --room;
    }
  }

  std::shared_ptr<Segment> inner_;
  std::size_t num_bytes_;
  std::size_t num_notifications_;
  mutable std::vector<int> only_senders_;  // of the notifications of Senders::one; -1: not known
  Doorbell& doorbell_;
  Violations& violations_;
  std::mutex kept_mutex_;
  std::vector<std::vector<std::function<void()>>> kept_;  // per member
  mutable std::mutex mutex_;
  std::vector<std::size_t> room_;    // granted, per member
  std::vector<std::uint64_t> sent_;  // newest value, per member and notification
  std::mt19937 random_;
  std::shared_ptr<LateDelivery> late_;
};

/// Hides of another transport what a network between made-up hosts would not
/// offer.
class PutOnlyTransport final : public Transport {
 public:
  PutOnlyTransport(std::unique_ptr<Transport> inner, Network network, Violations& violations)
      : inner_(std::move(inner)), network_(std::move(network)), violations_(violations) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  int node_of(int rank) const override { return network_.hosts[static_cast<std::size_t>(rank)]; }
  Capabilities capabilities() const override {
    return {.is_peer_memory_readable = false, .most_counters = network_.most_counters};
  }
  bool is_readable_among(const std::vector<int>& members) const override {
    return network_.are_hosts_readable &&
           std::all_of(members.begin(), members.end(),
                       [&](int member) { return node_of(member) == node_of(members.front()); });
  }
  std::unique_ptr<Segment> create_segment(const SegmentRequest& request,
                                          const Deadline& deadline) override {
    const bool is_readable = is_readable_among(request.members);
    if (!is_readable && request.num_counters() > network_.most_counters) {
      throw Error(ErrorKind::comm,
                  text(request.title(), " needs ", request.num_counters(), " counters"));
    }
    auto segment = inner_->create_segment(request, deadline);
    if (is_readable) return segment;
    auto result = std::make_unique<PutOnlySegment>(std::move(segment), request, network_.is_late,
                                                   doorbell(), violations_);
    const std::lock_guard lock(mutex_);
    if (result->late()) deliveries_.push_back(result->late());
    return result;
  }
  Doorbell& doorbell() override { return inner_->doorbell(); }
  PeerStatus status_of(int rank) const override { return inner_->status_of(rank); }
  void beat() override { inner_->beat(); }
  void leave(PeerState state, const std::string& reason) override {
    // What a rank has sent arrives before the news of its end.
    const std::lock_guard lock(mutex_);
    for (const auto& weak : deliveries_) {
      if (const auto delivery = weak.lock()) delivery->flush();
    }
    inner_->leave(state, reason);
  }

 private:
  std::unique_ptr<Transport> inner_;
  Network network_;
  Violations& violations_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<LateDelivery>> deliveries_;
};

}  // namespace tnt::comm::tests
