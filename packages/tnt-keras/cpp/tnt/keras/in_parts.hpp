// Work that is shared among threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

namespace tnt::keras {

/// Calls `work(begin, end)`, which must not throw, for parts that together are [0, size), in at
/// most `max_threads` threads, the calling one included. No part but the only one is below
/// `min_size`.
///
/// TensorFlow does not lend its own threads to operations of other libraries. These live as long as
/// the call, so that processes can be forked between calls.
template <typename Work>
void in_parts(int64_t size, int64_t min_size, int64_t max_threads, Work work) {
  const int64_t num_parts = std::max<int64_t>(1, std::min(max_threads, size / min_size));
  const auto bound = [&](int64_t part) {
    return size / num_parts * part + std::min(part, size % num_parts);
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(num_parts));
  int64_t part = 0;
  try {
    for (; part + 1 < num_parts; ++part) threads.emplace_back(work, bound(part), bound(part + 1));
  } catch (const std::system_error&) {
    // There are no more threads to be had.
  }
  work(bound(part), size);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tnt::keras
