#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/base/waiting.hpp"
#include "tnt/comm/kernel/sum_tree.hpp"

namespace tnt::comm {

namespace cuda {
class PrimaryContext;
}

/// An address in the memory of a GPU.
using DevicePointer = std::uint64_t;

/// A stream of a GPU that this library did not make, as the driver names it; null: all streams of
/// the primary context, where nobody tells which one (see Device::can_order_whole_context).
using ForeignStream = void*;

/// By which another process of the host opens memory of a GPU.
using IpcHandle = std::array<std::byte, 64>;

/// A GPU that this process uses: its driver, primary context and our kernels, held as long as
/// the object lives. Functions of this room may be called by any thread, whatever context it
/// uses; they throw a CommError with what the driver says.
class Device {
 public:
  /// The `ordinal`-th GPU that the process sees; the same object for the same number. Null if it
  /// cannot be used, for which `reason` is one sentence with a remedy, if there is one.
  static std::shared_ptr<Device> find(int ordinal, std::string& reason);

  explicit Device(int ordinal);  // throws CommError; see find()
  ~Device();
  Device(Device&&) = delete;

  int ordinal() const { return ordinal_; }
  const std::string& name() const { return name_; }

  /// Whether events can stand for all streams of the context (driver 12.5 and later).
  bool can_order_whole_context() const;

  /// Tells a peer of the same host which GPU this is: its PCI address.
  const std::string& pci_address() const { return pci_address_; }
  /// Whether kernels of this GPU reach the memory of that one, which may be itself. Nothing if this
  /// process does not see it, so that the driver cannot be asked.
  std::optional<bool> can_reach(const std::string& pci_address) const;

  /// For this room only.
  cuda::PrimaryContext& context() const { return *context_; }

 private:
  int ordinal_;
  std::unique_ptr<cuda::PrimaryContext> context_;
  std::string name_;
  std::string pci_address_;
};

/// Memory of a GPU, zeroed at first, aligned to 256 bytes.
class DeviceBuffer {
 public:
  DeviceBuffer(std::shared_ptr<Device> device, std::size_t num_bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&&) = delete;

  DevicePointer data() const { return data_; }
  std::size_t size() const { return num_bytes_; }
  /// CommError where the system does not share memory of GPUs.
  IpcHandle handle() const;

 private:
  std::shared_ptr<Device> device_;
  std::size_t num_bytes_;
  DevicePointer data_ = 0;
};

/// A DeviceBuffer of another process of this host, as kernels of this one see it.
class PeerBuffer {
 public:
  PeerBuffer(std::shared_ptr<Device> device, const IpcHandle& handle);
  ~PeerBuffer();
  PeerBuffer(PeerBuffer&&) = delete;

  DevicePointer data() const { return data_; }

 private:
  std::shared_ptr<Device> device_;
  DevicePointer data_ = 0;
};

/// Marks a place in a stream. Before the first record() it is complete.
class DeviceEvent {
 public:
  explicit DeviceEvent(std::shared_ptr<Device> device);
  ~DeviceEvent();
  DeviceEvent(DeviceEvent&&) = delete;

  /// Behind what is in the stream now; a null one stands for all streams of the context.
  void record(ForeignStream stream);
  /// What comes into the stream later waits; null as before. Does not hold the caller.
  void hold_up(ForeignStream stream);
  /// Whether everything before it is done. CommError if that has failed.
  bool is_complete() const;

 private:
  friend class DeviceStream;
  std::shared_ptr<Device> device_;
  void* event_ = nullptr;
};

/// Arrays that become one, element by element, and where: sources and targets may be the same.
struct DeviceSum {
  std::span<const DevicePointer> sources;
  std::span<const DevicePointer> targets;
  DType dtype = DType::float32;
  std::size_t count = 0;
};

/// A queue of work of a GPU. All functions return at once; work of a stream is done in its order.
class DeviceStream {
 public:
  /// A stream of our own, which does not wait for others.
  explicit DeviceStream(std::shared_ptr<Device> device);
  /// Somebody else's.
  DeviceStream(std::shared_ptr<Device> device, ForeignStream stream);
  /// Waits for what is in it, if it is ours, but not for ever.
  ~DeviceStream();
  DeviceStream(DeviceStream&&) = delete;

  ForeignStream get() const { return stream_; }

  void wait_for(const DeviceEvent& event);
  void record(DeviceEvent& event);

  void copy(DevicePointer to, DevicePointer from, std::size_t num_bytes);
  void copy_to_host(void* to, DevicePointer from, std::size_t num_bytes);
  void copy_from_host(DevicePointer to, const void* from, std::size_t num_bytes);

  /// As pack_scaled(), pack_narrowed() and unpack_widened() of kernels.hpp, to the bit.
  void pack_scaled(DevicePointer to, DevicePointer from, std::size_t count, DType dtype,
                   double factor);
  void pack_narrowed(DevicePointer to, DevicePointer from, std::size_t count, DType narrow,
                     double factor);
  void unpack_widened(DevicePointer to, DevicePointer from, std::size_t count, DType narrow);

  /// As TreeReducer::reduce_to(), to the bit, for sums of float32, float64, float16 and bfloat16.
  void sum(const DeviceSum& arrays, const SumTree& tree);

  /// Calls a function of the host behind what is in the stream now, by a thread of the driver. It
  /// must be quick, throw nothing and not use the GPU. It is not called if the stream fails.
  void call(std::function<void()> function);

  /// Waits until all is done; CommError if that takes longer than the deadline, or fails.
  void synchronize(const Deadline& deadline);
  /// The same for destructors: not for ever, and without an error. Whether all is done.
  bool drain() noexcept;

 private:
  void zero(DevicePointer to, std::size_t num_bytes);
  bool has_ended() const noexcept;

  std::shared_ptr<Device> device_;
  void* stream_ = nullptr;
  bool is_ours_;
};

/// The most arrays that a sum() takes.
inline constexpr int kMostDeviceSources = 64;

/// Whether kernels of GPUs sum elements of that type.
constexpr bool is_summed_on_devices(DType dtype) {
  return is_floating(dtype);
}

/// Memory of the host that the driver copies to and from without staging, while the object lives:
/// the whole pages of the range. CommError if the driver refuses.
class PinnedMemory {
 public:
  PinnedMemory(std::shared_ptr<Device> device, void* begin, std::size_t num_bytes);
  ~PinnedMemory();
  PinnedMemory(PinnedMemory&&) = delete;

 private:
  std::shared_ptr<Device> device_;
  void* begin_;
};

/// What doctor tells about the GPUs that this process sees.
struct DeviceReport {
  std::string reason;      ///< why there is none; empty otherwise
  int driver_version = 0;  ///< 13000 is CUDA 13.0
  struct Entry {
    std::string name;
    std::string pci_address;
    std::string uuid;
    std::uint64_t total_bytes = 0;
  };
  std::vector<Entry> devices;
  std::vector<std::vector<bool>> can_reach;  ///< [from][to]
};
/// Opens the driver, but uses no GPU. CommError if the driver does not answer.
DeviceReport describe_devices();

}  // namespace tnt::comm
