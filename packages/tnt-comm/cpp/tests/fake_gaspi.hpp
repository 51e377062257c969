#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "tnt/comm/transport/rma/rma_device.hpp"

namespace tnt::comm::tests {

/// A network between ranks that are threads of this process, for tests of what
/// is built on GASPI. A thread, the wire, executes the requests later, in order:
/// whoever overwrites a source too early is found out.
class FakeFabric {
 public:
  static constexpr std::size_t kQueueCapacity = 256;
  static constexpr int kNumQueues = 4;

  explicit FakeFabric(int size);
  ~FakeFabric();

  int size() const { return size_; }

  /// As SIGKILL: nothing comes from the rank any more, what is sent to it fails.
  void kill(int rank);
  /// As SIGSTOP and SIGCONT: what is sent to the rank stays on its way.
  void stop(int rank);
  void resume(int rank);
  /// As a cable that is pulled: nothing goes to the rank or comes from it, and nothing
  /// fails. Its kernel does not answer either.
  void cut_off(int rank);
  /// The next looks of the rank for notifications are errors.
  void fail_looks(int rank, int count);
  /// The rank has memory for so many segments more, then for none; once.
  void fail_allocation(int rank, int num_allocations);
  /// Whether that has come to pass.
  bool has_failed_allocation(int rank);
  /// The rank cannot release this segment; once.
  void fail_release(int rank, SegmentId segment);
  /// Whether that has come to pass.
  bool has_failed_release(int rank);
  /// Whether the rank has such a segment.
  bool has_segment(int rank, SegmentId segment);

 private:
  friend class FakeGaspi;
  friend class FakeHostProbe;

  struct Memory {
    std::unique_ptr<std::byte[]> bytes;
    std::byte* aligned = nullptr;
    std::size_t num_bytes = 0;
    std::map<std::size_t, std::uint32_t> slots;
    std::set<int> known_to;
  };
  struct Request {
    int from = 0;
    int queue = 0;
    RmaWrite write;
    std::size_t slot = 0;
    std::uint32_t value = 0;  // a notification if not 0
  };
  struct Endpoint {
    std::map<SegmentId, Memory> segments;
    std::array<std::size_t, kNumQueues> num_queued{};
    std::array<std::size_t, kNumQueues> num_complete{};  // and not drained
    std::array<bool, kNumQueues> has_failure{};
    std::set<int> failed_ranks;
    bool is_dead = false;
    bool is_stopped = false;
    bool is_cut_off = false;
    int num_failing_looks = 0;
    std::optional<int> num_allocations_left;
    std::optional<SegmentId> failing_release;
  };

  bool is_connected(int one, int other);
  Endpoint& endpoint(int rank) { return endpoints_[static_cast<std::size_t>(rank)]; }
  void post(const Request& request);
  void run();
  bool execute_one();  // false if there is nothing to do now
  void execute(const Request& request);

  int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Endpoint> endpoints_;
  std::deque<Request> requests_;
  int num_waiting_ = 0;  // in introduce_to_all()
  int num_generations_ = 0;
  bool is_closing_ = false;
  std::thread wire_;
};

/// One rank's access to a FakeFabric.
class FakeGaspi final : public RmaDevice {
 public:
  FakeGaspi(std::shared_ptr<FakeFabric> fabric, int rank)
      : fabric_(std::move(fabric)), rank_(rank) {}

  std::string name() const override { return "fabric"; }
  int rank() const override { return rank_; }
  int size() const override { return fabric_->size(); }
  std::byte* allocate(SegmentId segment, std::size_t num_bytes) override;
  void release(SegmentId segment) override;
  void introduce(SegmentId segment, int rank, const Deadline& deadline) override;
  void introduce_to_all(SegmentId segment) override;
  void write(const RmaWrite& request, int queue) override;
  void notify(int rank, SegmentId to_segment, std::size_t slot, std::uint32_t value,
              int queue) override;
  std::uint32_t take_notification(SegmentId segment, std::size_t slot) override;
  std::size_t num_notifications() const override { return 512; }
  int num_queues() const override { return FakeFabric::kNumQueues; }
  std::size_t queue_capacity() const override { return FakeFabric::kQueueCapacity; }
  std::size_t num_queued(int queue) const override;
  QueueState drain(int queue) override;
  std::vector<int> failed_ranks() const override;
  std::unique_ptr<HostProbe> probe_of_host(int rank) const override;

 private:
  FakeFabric::Endpoint& own() const { return fabric_->endpoint(rank_); }

  std::shared_ptr<FakeFabric> fabric_;
  int rank_;
};

}  // namespace tnt::comm::tests
