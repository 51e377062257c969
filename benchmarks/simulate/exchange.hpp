#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "tnt/comm/collective/rma/schedule.hpp"

/// What a member does between two waits, as far as it takes time.
struct Step {
  struct Send {
    int member = 0;
    std::size_t num_bytes = 0;
  };
  std::vector<Send> sends;
  std::size_t num_arrivals = 0;
  std::size_t combined_bytes = 0;  ///< of all operands but the first
};

/// The steps of one block in one member.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual std::size_t num_steps() const = 0;
  /// `scratch` is where the step may be put; it is valid until the next call with it.
  virtual const Step& step(std::size_t index, Step& scratch) const = 0;
};

/// A schedule of tnt-comm.
class ScheduledExchange final : public Exchange {
 public:
  explicit ScheduledExchange(const tnt::comm::Schedule& schedule) {
    for (const tnt::comm::Round& round : schedule.rounds) {
      Step step;
      for (const tnt::comm::Message& message : round.sends) {
        step.sends.push_back({message.member, message.num_bytes});
      }
      step.num_arrivals = round.arrivals.size();
      if (!round.operands.empty()) {
        step.combined_bytes = round.num_bytes * (round.operands.size() - 1);
      }
      steps_.push_back(std::move(step));
    }
  }

  std::size_t num_steps() const override { return steps_.size(); }
  const Step& step(std::size_t index, Step& /*scratch*/) const override { return steps_[index]; }

 private:
  std::vector<Step> steps_;
};

/// The ring of other libraries: each member sends to the next one, n-1 times what is being summed
/// and n-1 times what is finished, 1/n of the block at a time.
class RingExchange final : public Exchange {
 public:
  RingExchange(int member, int size, std::size_t num_bytes)
      : member_(member), size_(size), part_bytes_(num_bytes / static_cast<std::size_t>(size)) {}

  std::size_t num_steps() const override { return 2 * static_cast<std::size_t>(size_ - 1); }
  const Step& step(std::size_t index, Step& scratch) const override {
    scratch.sends.assign(1, {(member_ + 1) % size_, part_bytes_});
    scratch.num_arrivals = 1;
    scratch.combined_bytes = index + 1 < static_cast<std::size_t>(size_) ? part_bytes_ : 0;
    return scratch;
  }

 private:
  int member_;
  int size_;
  std::size_t part_bytes_;
};

/// Makes exchanges; equal ones of tnt-comm are made once.
class Exchanges {
 public:
  std::shared_ptr<const Exchange> ring(int member, int size, std::size_t num_bytes) const {
    return std::make_shared<RingExchange>(member, size, num_bytes);
  }

  std::shared_ptr<const Exchange> scheduled(const tnt::comm::LevelScheme& scheme, int member,
                                            int size, std::size_t num_bytes) {
    const auto key = std::tuple(scheme.is_split, scheme.radices, member, size, num_bytes);
    std::shared_ptr<const Exchange>& known = known_[key];
    if (!known) {
      const tnt::comm::Areas areas{.work = 0, .landing = std::size_t{1} << 40};  // anywhere else
      known = std::make_shared<ScheduledExchange>(tnt::comm::allreduce_schedule(
          scheme, member, tnt::comm::SumTree(size), num_bytes, areas));
    }
    return known;
  }

 private:
  using Key = std::tuple<bool, tnt::comm::Radices, int, int, std::size_t>;
  std::map<Key, std::shared_ptr<const Exchange>> known_;
};
