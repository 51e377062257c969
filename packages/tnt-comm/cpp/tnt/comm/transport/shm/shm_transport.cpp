#include "tnt/comm/transport/shm/shm_transport.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/waiting.hpp"

namespace tnt::comm {
namespace {

constexpr auto kPollInterval = std::chrono::microseconds(200);

// Reads, and does not touch what the first member may not have reserved yet: where /dev/shm is
// full, that is a SIGBUS.
bool has_begun(int descriptor) {
  std::uint32_t word = 0;
  return ::pread(descriptor, &word, sizeof word, 0) == sizeof word && word != 0;
}

}  // namespace

struct ShmSegment::Header {
  std::atomic<std::uint32_t> is_ready;
  std::atomic<std::uint32_t> num_mapped;
};

ShmSegment::ShmSegment(const std::string& name, const SegmentRequest& request, int member,
                       std::shared_ptr<ControlSegment> control, const Deadline& deadline)
    : request_(request),
      rank_(member),
      run_bytes_(round_up(request.num_notifications * sizeof(Counter), kCacheLineBytes)),
      member_bytes_(round_up(num_runs_ * run_bytes_ + request.num_bytes, kPage)),
      control_(std::move(control)) {
  try {
    map(name, deadline);
    memory_.reserve(world_rank(rank_), begin_of(rank_), member_bytes_);
    header().num_mapped.fetch_add(1);
    const auto everybody = static_cast<std::uint32_t>(size());
    wait_until([&] { return header().num_mapped.load() >= everybody; }, "map", deadline);
  } catch (...) {
    SharedMemory::unlink(name);
    throw;
  }
  request_.look_around = {};
  SharedMemory::unlink(name);  // whoever is first; the others find it gone
}

void ShmSegment::map(const std::string& name, const Deadline& deadline) {
  const std::size_t num_bytes = begin_of(size());
  if (rank_ == 0) {
    memory_ = SharedMemory::create(name, num_bytes);
    memory_.reserve(world_rank(rank_), 0, kPage);
    header().is_ready.store(1, std::memory_order_release);
    return;
  }
  wait_until(
      [&] {
        return SharedMemory::try_open(name, num_bytes, memory_) &&
               has_begun(memory_.descriptor()) &&
               header().is_ready.load(std::memory_order_acquire) != 0;
      },
      "create", deadline);
}

void ShmSegment::wait_until(const std::function<bool()>& is_reached, const char* what,
                            const Deadline& deadline) const {
  constexpr int kLooksBetweenLivenessChecks = 500;
  const auto complaint = [&](double waited_s) {
    return text("has waited ", waited_s, " s for the other members to ", what, " ",
                request_.title(), " together.");
  };
  const PolledWait wait{.rank = world_rank(rank_),
                        .deadline = deadline,
                        .stall_report_s = control_->stall_report_s(),
                        .interval = kPollInterval,
                        .complaint = complaint,
                        .remedy = kCreateTogether};
  int num_looks = 0;
  poll_until(wait, [&] {
    if (is_reached()) return true;
    if (++num_looks % kLooksBetweenLivenessChecks == 0) {
      request_.look_around();
      for (int member = 0; member < size(); ++member) require_alive(member);
    }
    return false;
  });
}

void ShmSegment::require_alive(int member) const {
  const int peer = world_rank(member);
  const PeerStatus status = control_->status_of(peer);
  if (status.state == PeerState::running || member == rank_) return;
  throw Error(ErrorKind::peer_lost,
              text("rank ", world_rank(rank_), " creates ", request_.title(),
                   " together with rank ", peer, " (host ", status.host, ", pid ", status.pid,
                   "), which has ended", status.reason.empty() ? "" : ": ", status.reason,
                   full_stop_after(status.reason), " See the output of that rank."),
              peer);
}

ShmSegment::Header& ShmSegment::header() const {
  return *reinterpret_cast<Header*>(memory_.data());
}

std::byte* ShmSegment::part(int member) const {
  return memory_.data() + begin_of(member) + num_runs_ * run_bytes_;
}

ShmSegment::Counter& ShmSegment::counter(int receiver, int sender, NotificationId id) const {
  std::byte* run = memory_.data() + begin_of(receiver) +
                   (num_runs_ == 1 ? 0 : static_cast<std::size_t>(sender)) * run_bytes_;
  return reinterpret_cast<Counter*>(run)[id];
}

void ShmSegment::put(int member, std::size_t to, std::size_t from, std::size_t num_bytes) {
  if (num_bytes > 0) std::memcpy(part(member) + to, local() + from, num_bytes);
}

void ShmSegment::notify(int member, NotificationId id, std::uint64_t value) {
  release_fence();
  counter(member, rank_, id).store(value, std::memory_order_relaxed);
  full_fence();
  control_->doorbell_of(world_rank(member)).ring_if_heard();
}

void ShmSegment::wake_others() {
  full_fence();
  for (int member = 0; member < size(); ++member) {
    if (member == rank_) continue;
    control_->doorbell_of(world_rank(member)).ring_if_heard();
  }
}

void ShmSegment::discard_local() {
  // Whole pages of the part only: the counters before it stay in use.
  const std::byte* end = memory_.data() + begin_of(rank_ + 1);
  const auto begin = round_up(reinterpret_cast<std::uintptr_t>(local()), kPage);
  const auto length = reinterpret_cast<std::uintptr_t>(end) - begin;
  if (length > 0) ::madvise(reinterpret_cast<void*>(begin), length, MADV_REMOVE);
}

std::uint64_t ShmSegment::poll(int sender, NotificationId id) const {
  // Fences, since every rank has a mapping of its own: ThreadSanitizer goes by
  // addresses and would see the two sides use different counters.
  const std::uint64_t value = counter(rank_, sender, id).load(std::memory_order_relaxed);
  acquire_fence();
  return value;
}

}  // namespace tnt::comm
