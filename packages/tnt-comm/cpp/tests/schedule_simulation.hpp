#pragma once

#include <cstdint>
#include <deque>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "naive_tree.hpp"
#include "tnt/comm/collective/rma/schedule.hpp"

namespace tnt::comm::tests {

/// Runs the schedules of all ranks on symbols in place of numbers, one symbol
/// per 64 bytes, and in a random order of everything whose order is not fixed:
/// which rank goes on, and when a message arrives. Messages are read from their
/// source when they arrive.
class ScheduleSimulation {
 public:
  using Symbol = std::uint64_t;
  static constexpr std::size_t kGranule = 64;

  /// a op b, which neither commutes nor associates.
  static Symbol combine(Symbol a, Symbol b) {
    Symbol mixed = a * 0x9e3779b97f4a7c15ULL + b + 0x7f4a7c15U;
    mixed ^= mixed >> 29;
    return mixed * 0xbf58476d1ce4e5b9ULL ^ (mixed >> 32);
  }

  /// `counts`: of the tree in which all ranks' operands are combined; empty: the default order.
  ScheduleSimulation(std::vector<Schedule> schedules, std::size_t slot_bytes, unsigned seed,
                     std::vector<int> counts = {})
      : counts_(std::move(counts)),
        schedules_(std::move(schedules)),
        slots_(size(), std::vector<Symbol>(slot_bytes / kGranule, 0)),
        round_(size(), 0),
        is_sent_(size(), false),
        flying_(size() * size()),
        arrived_(size()),
        random_(seed) {}

  std::size_t size() const { return schedules_.size(); }
  std::vector<Symbol>& slot(std::size_t rank) { return slots_[rank]; }

  /// False if the ranks wait for each other, or something leaves a slot.
  bool run() {
    is_valid_ = true;
    while (is_valid_ && (!busy_.empty() || can_any_go_on())) {
      const std::size_t act = random_() % (size() + busy_.size());
      if (act >= size()) {
        deliver(act - size());
      } else if (can_go_on(act)) {
        go_on(act);
      }
    }
    for (std::size_t rank = 0; rank < size(); ++rank) is_valid_ &= is_done(rank);
    return is_valid_;
  }

  std::size_t num_messages() const { return num_messages_; }

 private:
  bool is_done(std::size_t rank) const { return round_[rank] == schedules_[rank].rounds.size(); }

  bool can_go_on(std::size_t rank) const {
    if (is_done(rank)) return false;
    if (!is_sent_[rank]) return true;
    for (const Arrival& arrival : schedules_[rank].rounds[round_[rank]].arrivals) {
      if (!arrived_[rank].contains({arrival.member, arrival.id})) return false;
    }
    return true;
  }

  bool can_any_go_on() const {
    for (std::size_t rank = 0; rank < size(); ++rank) {
      if (can_go_on(rank)) return true;
    }
    return false;
  }

  void go_on(std::size_t rank) {
    const Round& round = schedules_[rank].rounds[round_[rank]];
    if (!is_sent_[rank]) {
      for (const Message& message : round.sends) {
        const std::size_t queue = rank * size() + static_cast<std::size_t>(message.member);
        if (flying_[queue].empty()) busy_.push_back(queue);
        flying_[queue].push_back(message);
      }
      is_sent_[rank] = true;
      return;
    }
    for (std::size_t i = 0; i < granules(round.num_bytes) && !round.operands.empty(); ++i) {
      std::vector<Symbol> operands;
      for (const std::size_t place : round.operands) operands.push_back(at(rank, place, i));
      const bool is_whole = operands.size() == size() && !counts_.empty();
      at(rank, round.target, i) =
          is_whole ? naive_tree(operands, counts_, combine) : naive_tree(operands, combine);
    }
    ++round_[rank];
    is_sent_[rank] = false;
  }

  void deliver(std::size_t which) {
    const std::size_t queue = busy_[which];
    const std::size_t sender = queue / size();
    const std::size_t receiver = queue % size();
    const Message message = flying_[queue].front();
    flying_[queue].pop_front();
    if (flying_[queue].empty()) {
      busy_[which] = busy_.back();
      busy_.pop_back();
    }
    ++num_messages_;
    for (std::size_t i = 0; i < granules(message.num_bytes); ++i) {
      at(receiver, message.to, i) = at(sender, message.from, i);
    }
    // Each notification of a schedule is used once.
    const auto [place, is_new] = arrived_[receiver].insert({static_cast<int>(sender), message.id});
    is_valid_ &= is_new;
  }

  static std::size_t granules(std::size_t num_bytes) {
    return (num_bytes + kGranule - 1) / kGranule;
  }

  Symbol& at(std::size_t rank, std::size_t place, std::size_t granule) {
    const std::size_t index = place / kGranule + granule;
    if (place % kGranule != 0 || index >= slots_[rank].size()) {
      is_valid_ = false;
      return outside_;
    }
    return slots_[rank][index];
  }

  std::vector<int> counts_;
  std::vector<Schedule> schedules_;
  std::vector<std::vector<Symbol>> slots_;
  std::vector<std::size_t> round_;
  std::vector<bool> is_sent_;
  std::vector<std::deque<Message>> flying_;  // sender * size + receiver
  std::vector<std::size_t> busy_;            // of these, in which something is
  std::vector<std::set<std::pair<int, NotificationId>>> arrived_;
  std::mt19937 random_;
  Symbol outside_ = 0;
  std::size_t num_messages_ = 0;
  bool is_valid_ = true;
};

}  // namespace tnt::comm::tests
