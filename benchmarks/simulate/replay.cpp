// Replays the allreduces of a training step in a model of hosts and network: which buckets there
// are, which algorithm sums each and which messages it sends say the sources of tnt-comm, with
// which this file is compiled. Only time is modelled.
//
// Servers take one thing at a time, in the order of arrival: the progress thread of each rank, the
// cards of each host in each direction, the memory of each host, and the link between each rank's
// device and its host. A message costs its sender, then both cards, then the latency, then its
// receiver. What moves bytes through the memory of a host occupies that as well, and ends when both
// have ended.
//
// Hosts that all do the same at the same time are simulated once: what the host sends to others, it
// gets. That is so if all ranks are ready at the same times, which they are here, and if the
// members of an exchange are hosts (one rank each, or two levels) or form a ring.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "exchange.hpp"
#include "job.hpp"
#include "tnt/comm/collective/rma/allreduce.hpp"
#include "tnt/comm/collective/rma/schedule.hpp"
#include "tnt/comm/collective/select.hpp"
#include "tnt/comm/reducer/plan.hpp"

namespace {

using namespace tnt::comm;

/// Takes one thing at a time.
struct Server {
  double free = 0;
  double busy = 0;

  /// When something that takes `cost`, and could begin at `time`, ends.
  double take(double time, double cost) {
    free = std::max(time, free) + cost;
    busy += cost;
    return free;
  }
};

enum class Kind : std::uint8_t {
  ready,    // the gradients of a bucket, on the device
  posted,   // the bucket is in memory from which it is sent
  advance,  // a block can go on
  arrival,  // of a message
  summed,   // by the whole host
};

struct Event {
  double time = 0;
  std::uint64_t order = 0;  // of events at the same time
  Kind kind = Kind::ready;
  int rank = 0;
  int bucket = 0;
  int block = 0;
  std::uint32_t step = 0;
  std::size_t num_bytes = 0;

  bool operator<(const Event& other) const {  // the queue has the largest in front
    return time != other.time ? time > other.time : order > other.order;
  }
};

/// One block of a bucket on its way through one rank.
struct BlockRun {
  std::shared_ptr<const Exchange> exchange;
  std::size_t num_bytes = 0;
  std::size_t step = 0;
  bool is_sent = false;
  std::vector<std::uint16_t> arrived;  // messages of each step
};

struct BucketRun {
  std::vector<BlockRun> blocks;
  std::size_t num_done = 0;
  bool is_posted = false;
};

struct Rank {
  Server thread;
  Server up;
  Server down;
  Server packing;
  Server local_path;
  std::vector<BucketRun> buckets;
  int num_unposted = 0;
  int next_serial = 0;
  bool is_serial_busy = false;
  double all_posted = 0;
  std::vector<std::pair<double, int>> held;  // summed before all buckets were posted
  double end = 0;
};

struct Host {
  Server sending;
  Server receiving;
  Server memory;
  std::vector<int> num_posted;  // ranks, of each bucket
  std::vector<int> num_summed;
};

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
  return host_layout(hosts);
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
        push({.time = ready, .kind = Kind::ready, .rank = rank, .bucket = bucket});
        ++at(ranks_, rank).num_unposted;
      }
    }
  }

  void push(Event event) {
    event.order = num_events_++;
    queue_.push(event);
  }

  void handle(const Event& event) {
    switch (event.kind) {
      case Kind::ready:
        return on_ready(event);
      case Kind::posted:
        return on_posted(event);
      case Kind::advance:
        return advance(event.rank, event.bucket, event.block, event.time);
      case Kind::arrival:
        return on_arrival(event);
      case Kind::summed:
        return on_summed(event.rank, event.bucket, event.time);
    }
  }

  // Work of the progress thread that moves so many bytes through the memory of its host.
  double work(int rank, double time, double cost, double traffic) {
    Server& thread = at(ranks_, rank).thread;
    const double begin = std::max(time, thread.free);
    const double moved = move(rank, begin, traffic);
    thread.take(time, cost);
    thread.free = std::max(thread.free, moved);
    return thread.free;
  }

  double move(int rank, double time, double traffic) {
    return host_of(rank).memory.take(time, traffic * costs_.memory_gap);
  }

  // Up from the device, then into the bucket.
  void on_ready(const Event& event) {
    Rank& rank = at(ranks_, event.rank);
    const auto num_bytes = static_cast<double>(bytes_of(event.bucket));
    double time = event.time;
    if (costs_.up_gap > 0) {
      const double moved = move(event.rank, time, num_bytes);
      time = std::max(moved, rank.up.take(time, num_bytes * costs_.up_gap));
    }
    push({.time = pack(event.rank, time, num_bytes),
          .kind = Kind::posted,
          .rank = event.rank,
          .bucket = event.bucket});
  }

  double pack(int rank, double time, double num_bytes) {
    const double moved = move(rank, time, num_bytes * costs_.pack_traffic);
    return std::max(moved, at(ranks_, rank).packing.take(time, num_bytes * costs_.pack_gap));
  }

  void on_posted(const Event& event) {
    Rank& rank = at(ranks_, event.rank);
    run_of(event.rank, event.bucket).is_posted = true;
    if (--rank.num_unposted == 0) {
      rank.all_posted = event.time;
      for (const auto& [time, bucket] : rank.held) hand_out(event.rank, bucket, event.time);
    }
    if (job_.is_serial != 0) {
      begin_next(event.rank, event.time);
    } else {
      begin(event.rank, event.bucket, event.time);
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
        const double end = sum_on_host(local, bucket, block, time);
        push({.time = end, .kind = Kind::advance, .rank = local, .bucket = bucket, .block = block});
      }
    }
  }

  int num_blocks(int rank, int bucket) {
    return static_cast<int>(run_of(rank, bucket).blocks.size());
  }

  // Reads the block of all ranks of the host, writes one sum.
  double sum_on_host(int rank, int bucket, int block, double time) {
    const auto num_bytes = static_cast<double>(at(run_of(rank, bucket).blocks, block).num_bytes);
    const double cost = num_bytes * costs_.combine_gap * (per_host() - 1);
    return work(rank, time, cost, num_bytes * (per_host() + 2));
  }

  // Reads one sum, writes it to all ranks of the host.
  double write_on_host(int rank, std::size_t block_bytes, double time) {
    const auto num_bytes = static_cast<double>(block_bytes);
    const double cost = num_bytes * costs_.write_gap * per_host();
    return work(rank, time, cost, num_bytes * (1 + 2 * per_host()));
  }

  void on_arrival(const Event& event) {
    const auto num_bytes = static_cast<double>(event.num_bytes);
    const double end = work(event.rank, event.time, costs_.receive + num_bytes * costs_.message_gap,
                            message_traffic(num_bytes));
    BlockRun& run = at(run_of(event.rank, event.bucket).blocks, event.block);
    run.arrived.resize(run.exchange->num_steps());
    ++run.arrived[event.step];
    // Whether it has begun here: another rank may be ahead.
    if (run.is_sent) advance(event.rank, event.bucket, event.block, end);
  }

  // The card reads or writes the memory; where the thread copies, that reads and writes as well.
  double message_traffic(double num_bytes) const {
    return costs_.message_gap > 0 ? 4 * num_bytes : num_bytes;
  }

  // Goes on with a block that has begun, until it waits for messages or is done.
  void advance(int rank, int bucket, int block, double time) {
    BlockRun& run = at(run_of(rank, bucket).blocks, block);
    run.arrived.resize(run.exchange->num_steps());
    while (run.step < run.exchange->num_steps()) {
      const Step& step = run.exchange->step(run.step, scratch_);
      if (!run.is_sent) {
        run.is_sent = true;
        for (const Step::Send& message : step.sends) {
          send(rank, bucket, block, message, static_cast<std::uint32_t>(run.step), time);
        }
      }
      if (run.arrived[run.step] < step.num_arrivals) return;
      if (step.combined_bytes > 0) {
        const auto num_bytes = static_cast<double>(step.combined_bytes);
        time = work(rank, time, num_bytes * costs_.combine_gap, 3 * num_bytes);
      }
      ++run.step;
      run.is_sent = false;
    }
    finish_block(rank, bucket, block, time);
  }

  void send(int rank, int bucket, int block, const Step::Send& message, std::uint32_t step,
            double time) {
    const auto num_bytes = static_cast<double>(message.num_bytes);
    const double sent =
        work(rank, time, costs_.send + num_bytes * costs_.message_gap, message_traffic(num_bytes));
    ++num_messages_;
    push({.time = on_wire(rank, message, sent),
          .kind = Kind::arrival,
          .rank = simulated(receiver(rank, message.member)),
          .bucket = bucket,
          .block = block,
          .step = step,
          .num_bytes = message.num_bytes});
  }

  // The rank, of all, that a member stands for.
  int receiver(int rank, int member) const {
    return is_hierarchical_ ? member * per_host() + rank % per_host() : member;
  }
  int simulated(int rank) const { return is_folded_ ? rank % per_host() : rank; }

  // When a message arrives.
  double on_wire(int rank, const Step::Send& message, double time) {
    const int to = receiver(rank, message.member);
    const bool is_local = rank / per_host() == to / per_host();
    const auto num_bytes = static_cast<double>(message.num_bytes);
    if (is_local && job_.is_card_loopback == 0) {
      Server& path = at(ranks_, rank).local_path;
      return path.take(time, num_bytes * costs_.local_gap) + costs_.local_latency;
    }
    const double length = num_bytes * costs_.gap;
    const double first_byte = host_of(rank).sending.take(time, length) - length + costs_.latency;
    if (!is_local) card_bytes_ += num_bytes;
    return host_of(simulated(to)).receiving.take(first_byte, length);
  }

  void finish_block(int rank, int bucket, int block, double time) {
    BucketRun& run = run_of(rank, bucket);
    if (is_hierarchical_) time = write_on_host(rank, at(run.blocks, block).num_bytes, time);
    if (++run.num_done < run.blocks.size()) return;
    if (!is_hierarchical_) {
      push({.time = time, .kind = Kind::summed, .rank = rank, .bucket = bucket});
      return;
    }
    if (++at(host_of(rank).num_summed, bucket) < per_host()) return;
    const int first = rank / per_host() * per_host();
    for (int local = first; local < first + per_host(); ++local) {
      push({.time = time, .kind = Kind::summed, .rank = local, .bucket = bucket});
    }
  }

  // Sums are handed out when all buckets have been posted, so that no thread that waits for one
  // keeps another one from being started.
  void on_summed(int rank_index, int bucket, double time) {
    Rank& rank = at(ranks_, rank_index);
    if (rank.num_unposted > 0) {
      rank.held.emplace_back(time, bucket);
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
    time = pack(rank_index, time, num_bytes);
    if (costs_.down_gap > 0) {
      const double moved = move(rank_index, time, num_bytes);
      time = std::max(moved, rank.down.take(time, num_bytes * costs_.down_gap));
    }
    rank.end = std::max(rank.end, time);
  }

  void report(Outcome& outcome) const {
    for (const Rank& rank : ranks_) {
      outcome.end = std::max(outcome.end, rank.end);
      outcome.thread_busy = std::max(outcome.thread_busy, rank.thread.busy);
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

/// Bytes that a member of `size` sends for a vector, by the formula of schedule.hpp.
EXPORT double sent_bytes(std::int32_t algorithm, std::int32_t size, double num_bytes) {
  const LevelScheme scheme = pattern_of(static_cast<AllreduceAlgorithm>(algorithm)).scheme;
  if (scheme.is_split) return 2.0 * (size - 1) / size * num_bytes;
  double num_copies = 0;
  for (const Level& level : levels_of(size, scheme.radices)) num_copies += level.radix - 1;
  return num_copies * num_bytes;
}
