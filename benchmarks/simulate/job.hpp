#pragma once

#include <cstddef>
#include <cstdint>

// What Python and C++ tell each other: replay.py has the same structures. Times are seconds, `gap`s
// seconds per byte.

/// What things cost.
struct Costs {
  double latency;        ///< of a message between hosts, once it is on the wire
  double gap;            ///< of the cards of a host, in each direction
  double local_latency;  ///< of a message between ranks of a host that does not use the card
  double local_gap;      ///< of such a message; each rank has a path of its own
  double send;           ///< of the progress thread, per message
  double receive;        ///< likewise
  double message_gap;    ///< of the progress thread at each end, where messages are copied
  double combine_gap;    ///< of the progress thread, per byte of a further operand
  double write_gap;      ///< of the progress thread, writing a sum to one rank of the host
  double pack_gap;       ///< of a gradient on its way into memory of messages, and back
  double pack_traffic;   ///< bytes that cross the memory of the host for each byte packed
  double memory_gap;     ///< of the memory of a host, which its ranks share
  double up_gap;         ///< from the device of a rank to the memory of its host
  double down_gap;       ///< back
};

/// What is replayed: float32 gradients, ready at these times in every rank.
struct Job {
  std::int32_t num_ranks;
  std::int32_t ranks_per_host;
  std::int32_t algorithm;         ///< an AllreduceAlgorithm, or kRing
  std::int32_t is_serial;         ///< one allreduce after another
  std::int32_t is_card_loopback;  ///< messages between ranks of a host use the card
  std::int32_t is_every_host;     ///< simulate them all, even where one stands for all
  std::int32_t is_lent;           ///< sums of two levels are read where they are, without a copy
  std::int32_t is_host_first;     ///< the tree of sums begins with the ranks of each host
  std::size_t threshold_bytes;    ///< of the FusionPlan
  std::size_t num_tensors;
  const std::size_t* num_elements;
  const double* ready;
};

inline constexpr std::int32_t kRing = -1;

/// What came out. The arrays have room for an entry per tensor; one per bucket is filled.
struct Outcome {
  double end;           ///< all ranks have all sums
  double card_bytes;    ///< that a host sends to others
  double thread_busy;   ///< of the busiest progress thread
  double card_busy;     ///< of the busiest card, sending
  double memory_busy;   ///< of the busiest memory
  double num_messages;  ///< per rank
  std::size_t num_buckets;
  std::int32_t is_hierarchical;
  std::size_t* bucket_bytes;
  std::int32_t* bucket_algorithm;  ///< an AllreduceAlgorithm; kRing; kSharedMemory on one host
};

inline constexpr std::int32_t kSharedMemory = -2;
