#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "exchange.hpp"

/// What the replay knows of hosts, ranks and buckets, and what can happen.
namespace replayed {

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

/// What the progress thread of a rank does in one go.
enum class Work : std::uint8_t {
  send,     // a message
  receive,  // a message
  combine,  // what a step has got
  gather,   // the block from all ranks of the host, and sum it
  scatter,  // the sum to all ranks of the host
};

struct Task {
  Work work = Work::send;
  int bucket = 0;
  int block = 0;
  std::size_t step = 0;
  std::size_t num_bytes = 0;
  int member = 0;  // to which a message goes
};

enum class Kind : std::uint8_t {
  ready,    // the gradients of a bucket, on the device
  posted,   // the bucket is in memory from which it is sent
  landing,  // the first byte of a message is at the card of its receiver
  arrival,  // the last one is in memory
  worked,   // the task is done
  summed,   // the bucket, by the whole host
};

struct Event {
  double time = 0;
  std::uint64_t order = 0;  // of events at the same time
  Kind kind = Kind::ready;
  int rank = 0;
  Task task = {};

  bool operator<(const Event& other) const {  // the queue has the largest in front
    return time != other.time ? time > other.time : order > other.order;
  }
};

/// One block of a bucket on its way through one rank.
struct BlockRun {
  std::shared_ptr<const Exchange> exchange;
  std::size_t num_bytes = 0;
  std::size_t step = 0;
  bool is_sent = false;  // or about to be
  std::size_t num_sent = 0;
  bool is_combining = false;
  bool is_combined = false;
  std::vector<std::uint16_t> arrived = {};  // messages of each step
};

struct BucketRun {
  std::vector<BlockRun> blocks;
  std::size_t num_done = 0;
  bool is_posted = false;
};

struct Rank {
  std::deque<Task> tasks;
  bool is_working = false;
  double thread_busy = 0;
  Server up;
  Server down;
  Server packing;
  Server local_path;
  std::vector<BucketRun> buckets;
  int num_unposted = 0;
  int next_serial = 0;
  bool is_serial_busy = false;
  std::vector<int> held;  // buckets, summed before all were posted
  double end = 0;
};

struct Host {
  Server sending;
  Server receiving;
  Server memory;
  std::vector<int> num_posted;  // ranks, of each bucket
  std::vector<int> num_summed;
};

}  // namespace replayed
