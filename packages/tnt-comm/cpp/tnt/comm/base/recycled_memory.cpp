#include "tnt/comm/base/recycled_memory.hpp"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <new>
#include <vector>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/base/waiting.hpp"

namespace tnt::comm {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = 2 * 1024 * 1024;

struct Block {
  std::byte* data = nullptr;
  std::size_t num_bytes = 0;
};

Block map_pages(std::size_t num_bytes) {
  void* memory =
      ::mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  // As numpy does for arrays; no harm if it is refused.
  if (num_bytes >= 2 * kHugePage) ::madvise(memory, num_bytes, MADV_HUGEPAGE);
  return {static_cast<std::byte*>(memory), num_bytes};
}

/// The blocks of this process that nobody uses, in the order in which they were given back.
class IdleBlocks {
 public:
  Block take(std::size_t num_bytes) {
    const std::lock_guard lock(mutex_);
    auto best = blocks_.end();
    for (auto idle = blocks_.begin(); idle != blocks_.end(); ++idle) {
      const std::size_t found = idle->block.num_bytes;
      const bool fits = found >= num_bytes && found - num_bytes <= found / 4;
      if (fits && (best == blocks_.end() || found <= best->block.num_bytes)) best = idle;
    }
    if (best == blocks_.end()) return {};
    const Block block = best->block;
    blocks_.erase(best);
    idle_bytes_ -= block.num_bytes;
    count_used(block.num_bytes);
    return block;
  }

  /// A new block is in use.
  void add_used(std::size_t num_bytes) {
    const std::lock_guard lock(mutex_);
    count_used(num_bytes);
  }

  /// Keeps a block, or returns it and others to the kernel.
  void give_back(const Block& block) {
    {
      const std::lock_guard lock(mutex_);
      used_bytes_ -= block.num_bytes;
      idle_bytes_ += block.num_bytes;
      blocks_.push_back({block, Clock::now()});
    }
    release();
  }

  /// Returns to the kernel, the oldest first, what is not to be kept, and what has not been used
  /// since `before`.
  void release(Clock::time_point before = {}) {
    std::vector<Block> unused;
    {
      const std::lock_guard lock(mutex_);
      while (!blocks_.empty() && (is_too_much() || blocks_.front().since <= before)) {
        unused.push_back(blocks_.front().block);
        idle_bytes_ -= unused.back().num_bytes;
        blocks_.pop_front();
      }
    }
    for (const Block& block : unused) ::munmap(block.data, block.num_bytes);
  }

  void add_keepers(int count) {
    {
      const std::lock_guard lock(mutex_);
      num_keepers_ += count;
    }
    release();
  }

  std::size_t num_bytes() {
    const std::lock_guard lock(mutex_);
    return idle_bytes_;
  }

  // Around a fork: no other thread may be halfway, since the child does not have it.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  void unlock_as_child() {
    num_keepers_ = 0;
    mutex_.unlock();
    release();
  }

 private:
  struct Idle {
    Block block;
    Clock::time_point since;
  };

  void count_used(std::size_t num_bytes) {
    used_bytes_ += num_bytes;
    most_used_bytes_ = std::max(most_used_bytes_, used_bytes_);
  }

  bool is_too_much() const {
    return num_keepers_ == 0 ||
           idle_bytes_ > std::max(RecycledMemory::kMostIdleBytes, most_used_bytes_);
  }

  std::mutex mutex_;
  std::deque<Idle> blocks_;
  std::size_t idle_bytes_ = 0;
  std::size_t used_bytes_ = 0;
  std::size_t most_used_bytes_ = 0;
  int num_keepers_ = 0;
};

// Never destroyed: arrays may outlive everything else at exit.
IdleBlocks& idle_blocks() {
  static IdleBlocks* blocks = [] {
    auto* made = new IdleBlocks();
    ::pthread_atfork([] { idle_blocks().lock(); }, [] { idle_blocks().unlock(); },
                     [] { idle_blocks().unlock_as_child(); });
    return made;
  }();
  return *blocks;
}

}  // namespace

RecycledMemory::RecycledMemory(std::size_t num_bytes) : size_(num_bytes) {
  if (num_bytes == 0) return;
  if (num_bytes < kSmallestKeptBytes) {
    data_ = static_cast<std::byte*>(std::malloc(num_bytes));
    if (data_ == nullptr) throw std::bad_alloc();
    return;
  }
  const std::size_t wanted = round_up(num_bytes, kPage);
  Block block = idle_blocks().take(wanted);
  if (block.data == nullptr) {
    block = map_pages(wanted);
    idle_blocks().add_used(wanted);
  }
  data_ = block.data;
  capacity_ = block.num_bytes;
}

RecycledMemory::~RecycledMemory() {
  if (capacity_ > 0) {
    idle_blocks().give_back({data_, capacity_});
  } else {
    std::free(data_);
  }
}

std::size_t RecycledMemory::num_idle_bytes() {
  return idle_blocks().num_bytes();
}

RecycledMemory::Keeper::Keeper() {
  idle_blocks().add_keepers(1);
}

RecycledMemory::Keeper::~Keeper() {
  idle_blocks().add_keepers(-1);
}

void RecycledMemory::Keeper::release_unused(std::chrono::milliseconds age) {
  idle_blocks().release(Clock::now() - age);
}

}  // namespace tnt::comm
