// Replays the allreduces of a training step in a model of hosts and network: which buckets there
// are, which algorithm sums each and which messages it sends say the sources of tnt-comm, with
// which this file is compiled. Only time is modelled.
//
// Servers take one thing at a time, in the order of arrival: the progress thread of each rank, the
// cards of each host in each direction, the memory of each host, and the link between each rank's
// device and its host. A message costs its sender, then both cards, with the latency between them,
// then its receiver. What moves bytes through the memory of a host occupies that as well, and ends
// when both have ended. Nothing is reserved before its time comes.
//
// Hosts that all do the same at the same time are simulated once: what the host sends to others, it
// gets. That is so if all ranks are ready at the same times, which they are here, and if the
// members of an exchange are hosts (one rank each, or two levels) or form a ring.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "exchange.hpp"
#include "job.hpp"
#include "state.hpp"
#include "tnt/comm/collective/rma/allreduce.hpp"
#include "tnt/comm/collective/rma/schedule.hpp"
#include "tnt/comm/collective/select.hpp"
#include "tnt/comm/reducer/plan.hpp"

namespace {

using namespace tnt::comm;
using replayed::BlockRun;
using replayed::BucketRun;
using replayed::Event;
using replayed::Host;
using replayed::Kind;
using replayed::Rank;
using replayed::Task;
using replayed::Work;

FusionPlan plan_of(const Job& job) {
  std::vector<TensorSpec> tensors;
  for (std::size_t i = 0; i < job.num_tensors; ++i) {
    tensors.push_back({std::to_string(i), DType::float32, job.num_elements[i]});
  }
  return FusionPlan(std::move(tensors), job.threshold_bytes);
}

HostLayout layout_of(const Job& job) {
  std::vector<int> hosts;
  for (int rank = 0; rank < job.num_ranks; ++rank) hosts.push_back(rank / job.ranks_per_host);
  const SumTree tree = job.is_host_first != 0
                           ? SumTree({job.ranks_per_host, job.num_ranks / job.ranks_per_host})
                           : SumTree(job.num_ranks);
  return host_layout(hosts, tree);
}

class Replay {
 public:
  Replay(const Costs& costs, const Job& job)
      : costs_(costs),
        job_(job),
        plan_(plan_of(job)),
        num_hosts_(job.num_ranks / job.ranks_per_host),
        is_ring_(job.algorithm == kRing),
        is_hierarchical_(!is_ring_ && job.ranks_per_host > 1 &&
                         (num_hosts_ == 1 || layout_of(job).has_branches)),
        is_folded_((is_ring_ || is_hierarchical_ || job.ranks_per_host == 1) &&
                   job.is_every_host == 0),
        hosts_(static_cast<std::size_t>(is_folded_ ? 1 : num_hosts_)),
        ranks_(hosts_.size() * static_cast<std::size_t>(job.ranks_per_host)) {
    for (std::size_t bucket = 0; bucket < plan_.buckets().size(); ++bucket) add(bucket);
  }

  void run(Outcome& outcome) {
    start();
    while (!queue_.empty()) {
      const Event event = queue_.top();
      queue_.pop();
      handle(event);
    }
    report(outcome);
  }

 private:
  int per_host() const { return job_.ranks_per_host; }
  Host& host_of(int rank) { return at(hosts_, rank / per_host()); }
  BucketRun& run_of(int rank, int bucket) { return at(at(ranks_, rank).buckets, bucket); }
  std::size_t bytes_of(int bucket) const { return at(plan_.buckets(), bucket).num_wire_bytes(); }

  // Makes the exchanges of a bucket in all ranks.
  void add(std::size_t bucket) {
    const std::size_t num_bytes = plan_.buckets()[bucket].num_wire_bytes();
    const std::int32_t algorithm = algorithm_for(num_bytes);
    algorithms_.push_back(algorithm);
    for (Host& host : hosts_) {
      host.num_posted.push_back(0);
      host.num_summed.push_back(0);
    }
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
      BucketRun run;
      if (is_ring_) {
        run.blocks.push_back(
            {.exchange = exchanges_.ring(rank, job_.num_ranks, num_bytes), .num_bytes = num_bytes});
      } else {
        add_scheduled(run, rank, num_bytes, algorithm);
      }
      at(ranks_, rank).buckets.push_back(std::move(run));
    }
  }

  void add_scheduled(BucketRun& run, int rank, std::size_t num_bytes, std::int32_t algorithm) {
    const MessagePattern pattern =
        pattern_of(algorithm == kSharedMemory ? AllreduceAlgorithm::two_shot
                                              : static_cast<AllreduceAlgorithm>(algorithm));
    const auto num_chunks = static_cast<std::size_t>(is_hierarchical_ ? per_host() : 1);
    const auto own = static_cast<std::size_t>(is_hierarchical_ ? rank % per_host() : 0);
    const std::size_t exchanged = part_of(num_bytes, num_chunks, own, kCacheLineBytes).size();
    const int member = is_hierarchical_ ? rank / per_host() : rank;
    const int size = is_hierarchical_ ? num_hosts_ : job_.num_ranks;
    for (const Range& block : blocks_in_place(pattern, exchanged)) {
      run.blocks.push_back(
          {.exchange = exchanges_.scheduled(pattern.scheme, member, size, block.size()),
           .num_bytes = block.size()});
    }
  }

  std::int32_t algorithm_for(std::size_t num_bytes) const {
    if (is_ring_) return kRing;
    if (num_hosts_ == 1 && is_hierarchical_) return kSharedMemory;
    const AllreduceCase wanted{
        .num_bytes = num_bytes,
        .dtype = DType::float32,
        .topology = is_hierarchical_ ? Topology::hierarchical : Topology::put_only,
        .num_members = job_.num_ranks,
        .num_hosts = num_hosts_};
    return static_cast<std::int32_t>(
        choose_allreduce(wanted, static_cast<AllreduceAlgorithm>(job_.algorithm)));
  }

  void start() {
    for (int bucket = 0; bucket < static_cast<int>(plan_.buckets().size()); ++bucket) {
      double ready = 0;
      for (const std::size_t id : at(plan_.buckets(), bucket).tensor_ids) {
        ready = std::max(ready, job_.ready[id]);
      }
      for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
        push(ready, Kind::ready, rank, {.bucket = bucket});
        ++at(ranks_, rank).num_unposted;
      }
    }
  }

  void push(double time, Kind kind, int rank, const Task& task) {
    queue_.push({time, num_events_++, kind, rank, task});
  }

  void handle(const Event& event) {
    const auto& [time, order, kind, rank, task] = event;
    switch (kind) {
      case Kind::ready:
        return on_ready(rank, task.bucket, time);
      case Kind::posted:
        return on_posted(rank, task.bucket, time);
      case Kind::landing:
        return on_landing(rank, task, time);
      case Kind::arrival:
        at(ranks_, rank).tasks.push_back(task);
        return work_on(rank, time);
      case Kind::worked:
        at(ranks_, rank).is_working = false;
        on_worked(rank, task, time);
        return work_on(rank, time);
      case Kind::summed:
        return on_summed(rank, task.bucket, time);
    }
  }

  // Begins the next task, unless there is one under way.
  void work_on(int rank_index, double time) {
    Rank& rank = at(ranks_, rank_index);
    if (rank.is_working || rank.tasks.empty()) return;
    const Task task = rank.tasks.front();
    rank.tasks.pop_front();
    rank.is_working = true;
    const auto [cost, traffic] = price_of(task);
    const double end = std::max(time + cost, move(rank_index, time, traffic));
    rank.thread_busy += end - time;
    push(end, Kind::worked, rank_index, task);
  }

  // Time of the thread, and bytes that are read and written. The card reads or writes the bytes of
  // a message; where the thread copies them, that reads and writes as well.
  std::pair<double, double> price_of(const Task& task) const {
    const auto num_bytes = static_cast<double>(task.num_bytes);
    const double copied = costs_.message_gap > 0 ? 4 * num_bytes : num_bytes;
    switch (task.work) {
      case Work::send:
        return {costs_.send + num_bytes * costs_.message_gap, copied};
      case Work::receive:
        return {costs_.receive + num_bytes * costs_.message_gap, copied};
      case Work::combine:
        return {num_bytes * costs_.combine_gap, 3 * num_bytes};
      case Work::gather:
        return {num_bytes * costs_.combine_gap * (per_host() - 1), num_bytes * (per_host() + 2)};
      case Work::scatter:
        return {num_bytes * costs_.write_gap * per_host(), num_bytes * (1 + 2 * per_host())};
    }
    return {};
  }

  void on_worked(int rank, const Task& task, double time) {
    switch (task.work) {
      case Work::send:
        return on_sent(rank, task, time);
      case Work::receive: {
        BlockRun& run = at(run_of(rank, task.bucket).blocks, task.block);
        run.arrived.resize(run.exchange->num_steps());
        ++run.arrived[task.step];
        // Whether it has begun here: another rank may be ahead.
        if (run.is_sent) advance(rank, task.bucket, task.block, time);
        return;
      }
      case Work::combine:
        at(run_of(rank, task.bucket).blocks, task.block).is_combined = true;
        return advance(rank, task.bucket, task.block, time);
      case Work::gather:
        return advance(rank, task.bucket, task.block, time);
      case Work::scatter:
        return end_block(rank, task.bucket, time);
    }
  }

  double move(int rank, double time, double traffic) {
    return host_of(rank).memory.take(time, traffic * costs_.memory_gap);
  }

  // Up from the device, then into the bucket.
  void on_ready(int rank_index, int bucket, double time) {
    Rank& rank = at(ranks_, rank_index);
    const auto num_bytes = static_cast<double>(bytes_of(bucket));
    if (costs_.up_gap > 0) {
      const double moved = move(rank_index, time, num_bytes);
      time = std::max(moved, rank.up.take(time, num_bytes * costs_.up_gap));
    }
    push(pack(rank_index, time, num_bytes), Kind::posted, rank_index, {.bucket = bucket});
  }

  double pack(int rank, double time, double num_bytes) {
    const double moved = move(rank, time, num_bytes * costs_.pack_traffic);
    return std::max(moved, at(ranks_, rank).packing.take(time, num_bytes * costs_.pack_gap));
  }

  void on_posted(int rank_index, int bucket, double time) {
    Rank& rank = at(ranks_, rank_index);
    run_of(rank_index, bucket).is_posted = true;
    if (--rank.num_unposted == 0) {
      for (const int held : rank.held) hand_out(rank_index, held, time);
    }
    if (job_.is_serial != 0) {
      begin_next(rank_index, time);
    } else {
      begin(rank_index, bucket, time);
    }
  }

  void begin_next(int rank_index, double time) {
    Rank& rank = at(ranks_, rank_index);
    if (rank.is_serial_busy || rank.next_serial == static_cast<int>(rank.buckets.size())) return;
    if (!at(rank.buckets, rank.next_serial).is_posted) return;
    rank.is_serial_busy = true;
    begin(rank_index, rank.next_serial++, time);
  }

  void begin(int rank, int bucket, double time) {
    if (!is_hierarchical_) {
      for (int block = 0; block < num_blocks(rank, bucket); ++block) {
        advance(rank, bucket, block, time);
      }
      return;
    }
    if (++at(host_of(rank).num_posted, bucket) < per_host()) return;
    const int first = rank / per_host() * per_host();
    for (int local = first; local < first + per_host(); ++local) {
      for (int block = 0; block < num_blocks(local, bucket); ++block) {
        const std::size_t num_bytes = at(run_of(local, bucket).blocks, block).num_bytes;
        at(ranks_, local)
            .tasks.push_back(
                {.work = Work::gather, .bucket = bucket, .block = block, .num_bytes = num_bytes});
      }
      work_on(local, time);
    }
  }

  int num_blocks(int rank, int bucket) {
    return static_cast<int>(run_of(rank, bucket).blocks.size());
  }

  // Goes on with a block that has begun, until it waits for messages or for the thread. What
  // follows from a task is done next.
  void advance(int rank, int bucket, int block, double time) {
    BlockRun& run = at(run_of(rank, bucket).blocks, block);
    std::deque<Task>& tasks = at(ranks_, rank).tasks;
    Task next{.bucket = bucket, .block = block, .step = run.step};
    run.arrived.resize(run.exchange->num_steps());
    while (run.step < run.exchange->num_steps()) {
      const Step& step = run.exchange->step(run.step, scratch_);
      next.step = run.step;
      if (!run.is_sent) {
        run.is_sent = true;
        next.work = Work::send;
        for (auto message = step.sends.rbegin(); message != step.sends.rend(); ++message) {
          next.num_bytes = message->num_bytes;
          next.member = message->member;
          tasks.push_front(next);
        }
        return work_on(rank, time);
      }
      if (run.num_sent < step.sends.size()) return;
      if (run.arrived[run.step] < step.num_arrivals) return;
      if (step.combined_bytes > 0 && !run.is_combined) {
        if (run.is_combining) return;
        run.is_combining = true;
        next.work = Work::combine;
        next.num_bytes = step.combined_bytes;
        tasks.push_front(next);
        return work_on(rank, time);
      }
      ++run.step;
      run.num_sent = 0;
      run.is_sent = run.is_combining = run.is_combined = false;
    }
    if (!is_hierarchical_) return end_block(rank, bucket, time);
    next.work = Work::scatter;
    next.num_bytes = run.num_bytes;
    tasks.push_front(next);
    work_on(rank, time);
  }

  // On the wire, or to a rank of this host without it.
  void on_sent(int rank, const Task& task, double time) {
    const int to = receiver(rank, task.member);
    const bool is_local = rank / per_host() == to / per_host();
    const auto num_bytes = static_cast<double>(task.num_bytes);
    Task arriving = task;
    arriving.work = Work::receive;
    ++num_messages_;
    if (is_local && job_.is_card_loopback == 0) {
      const double sent = at(ranks_, rank).local_path.take(time, num_bytes * costs_.local_gap);
      push(sent + costs_.local_latency, Kind::arrival, simulated(to), arriving);
    } else {
      const double length = num_bytes * costs_.gap;
      const double begin = host_of(rank).sending.take(time, length) - length;
      push(begin + costs_.latency, Kind::landing, simulated(to), arriving);
      if (!is_local) card_bytes_ += num_bytes;
    }
    BlockRun& run = at(run_of(rank, task.bucket).blocks, task.block);
    ++run.num_sent;
    advance(rank, task.bucket, task.block, time);
  }

  void on_landing(int rank, const Task& task, double time) {
    const double length = static_cast<double>(task.num_bytes) * costs_.gap;
    push(host_of(rank).receiving.take(time, length), Kind::arrival, rank, task);
  }

  // The rank, of all, that a member stands for.
  int receiver(int rank, int member) const {
    return is_hierarchical_ ? member * per_host() + rank % per_host() : member;
  }
  int simulated(int rank) const { return is_folded_ ? rank % per_host() : rank; }

  void end_block(int rank, int bucket, double time) {
    BucketRun& run = run_of(rank, bucket);
    if (++run.num_done < run.blocks.size()) return;
    if (!is_hierarchical_) return push(time, Kind::summed, rank, {.bucket = bucket});
    if (++at(host_of(rank).num_summed, bucket) < per_host()) return;
    const int first = rank / per_host() * per_host();
    for (int local = first; local < first + per_host(); ++local) {
      push(time, Kind::summed, local, {.bucket = bucket});
    }
  }

  // Sums are handed out when all buckets have been posted, so that no thread that waits for one
  // keeps another one from being started.
  void on_summed(int rank_index, int bucket, double time) {
    Rank& rank = at(ranks_, rank_index);
    if (rank.num_unposted > 0) {
      rank.held.push_back(bucket);
    } else {
      hand_out(rank_index, bucket, time);
    }
    if (job_.is_serial != 0) {
      rank.is_serial_busy = false;
      begin_next(rank_index, time);
    }
  }

  // Out of the bucket, then down to the device.
  void hand_out(int rank_index, int bucket, double time) {
    Rank& rank = at(ranks_, rank_index);
    const auto num_bytes = static_cast<double>(bytes_of(bucket));
    const bool is_lent = is_hierarchical_ && job_.is_lent != 0;
    if (!is_lent) time = pack(rank_index, time, num_bytes);
    if (costs_.down_gap > 0) {
      const double moved = move(rank_index, time, num_bytes);
      time = std::max(moved, rank.down.take(time, num_bytes * costs_.down_gap));
    }
    rank.end = std::max(rank.end, time);
  }

  void report(Outcome& outcome) const {
    for (const Rank& rank : ranks_) {
      outcome.end = std::max(outcome.end, rank.end);
      outcome.thread_busy = std::max(outcome.thread_busy, rank.thread_busy);
    }
    for (const Host& host : hosts_) {
      outcome.card_busy = std::max(outcome.card_busy, host.sending.busy);
      outcome.memory_busy = std::max(outcome.memory_busy, host.memory.busy);
    }
    outcome.card_bytes = card_bytes_ / static_cast<double>(hosts_.size());
    outcome.num_messages = static_cast<double>(num_messages_) / static_cast<double>(ranks_.size());
    outcome.num_buckets = plan_.buckets().size();
    outcome.is_hierarchical = is_hierarchical_ ? 1 : 0;
    for (std::size_t bucket = 0; bucket < outcome.num_buckets; ++bucket) {
      outcome.bucket_bytes[bucket] = plan_.buckets()[bucket].num_wire_bytes();
      outcome.bucket_algorithm[bucket] = algorithms_[bucket];
    }
  }

  Costs costs_;
  Job job_;
  FusionPlan plan_;
  int num_hosts_;
  bool is_ring_;
  bool is_hierarchical_;
  bool is_folded_;
  std::vector<Host> hosts_;
  std::vector<Rank> ranks_;
  std::vector<std::int32_t> algorithms_;  // of each bucket
  Exchanges exchanges_;
  std::priority_queue<Event> queue_;
  Step scratch_;
  std::uint64_t num_events_ = 0;
  std::uint64_t num_messages_ = 0;
  double card_bytes_ = 0;
};

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

/// `outcome` is zeros but for its arrays.
EXPORT void replay(const Costs* costs, const Job* job, Outcome* outcome) {
  Replay(*costs, *job).run(*outcome);
}
