#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fake_cuda/kernels.hpp"
#include "fake_cuda/memory.hpp"
#include "fake_cuda/streams.hpp"

namespace tnt::comm::tests::fake_cuda {

/// A primary context, which a handle of a context points to.
struct DeviceContext {
  int ordinal = 0;
  std::atomic<int> num_retained{0};
  std::mutex mutex;
  std::list<std::shared_ptr<Stream>> streams;  // closed ones too, until their threads have ended
  std::unique_ptr<Stream> gate;  // behind which streams that are created later begin; may be null

  /// With the lock.
  std::vector<std::shared_ptr<Stream>> open_streams() const;
  /// Without.
  void wait_for_all_streams();
};

/// What a handle of an event points to.
class EventObject {
 public:
  void record(MarkUse mark) {
    const std::lock_guard lock(mutex_);
    latest_ = std::move(mark);
  }
  MarkUse latest() const {
    const std::lock_guard lock(mutex_);
    return latest_;
  }

 private:
  mutable std::mutex mutex_;
  MarkUse latest_;
};

/// Everything that a process has of its driver.
struct Objects {
  static constexpr int kMostDevices = 16;

  std::atomic<bool> is_initialized{false};
  int num_devices = 1;
  int capability = 90;   // to compute, times ten
  int first_device = 0;  // of the host's that the process sees
  int version = 13000;
  unsigned seed = 1;
  std::array<unsigned, kMostDevices> reachable{};  // a bit for each
  std::array<DeviceContext, kMostDevices> contexts;
  Memory memory;

  std::mutex mutex;
  std::deque<Mark> marks;
  std::atomic<int> num_streams{0};  // that are open
  std::map<cuda::Event, std::unique_ptr<EventObject>> events;
  std::map<cuda::Module, std::unique_ptr<std::string>> modules;  // their text
  unsigned num_streams_made = 0;

  struct Failure {
    int number;
    cuda::Result result;
  };
  std::atomic<bool> has_failures{false};
  std::map<std::string, Failure> failures;

  bool has_device(cuda::DeviceNumber device) const { return device >= 0 && device < num_devices; }
  MarkUse make_mark(int num_streams);
  Stream* make_stream(DeviceContext& context);
};

Objects& objects();

/// The context of this thread; null if there is none.
DeviceContext* current_context();

inline Stream* stream_of(cuda::Stream stream) {
  return reinterpret_cast<Stream*>(stream);
}
inline EventObject* event_of(cuda::Event event) {
  return reinterpret_cast<EventObject*>(event);
}
inline DeviceContext* context_of(cuda::Context context) {
  return reinterpret_cast<DeviceContext*>(context);
}

}  // namespace tnt::comm::tests::fake_cuda
