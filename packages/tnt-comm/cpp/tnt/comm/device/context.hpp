#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/device/driver_library.hpp"

namespace tnt::comm::cuda {

/// The longest pause between two looks at whether a GPU has done its work.
inline constexpr std::chrono::microseconds kLongestPause{500};

/// Our kernels, as a context has them. Each array has one for each type, by its number.
struct Kernels {
  static constexpr std::size_t kNumTypes = 4;                 ///< those with fractions
  static constexpr std::size_t kNumNarrow = 2;                ///< float16, bfloat16
  static constexpr std::size_t kNumCounts = 4;                ///< of sums
  std::array<std::array<Kernel, kNumTypes>, kNumCounts> sum;  ///< 2, 4, 8, any number of sources
  std::array<Kernel, kNumTypes> scale;
  std::array<Kernel, kNumNarrow> narrow;
  std::array<Kernel, kNumNarrow> widen;
};

/// The primary context of a GPU, which all libraries of a process share, and our kernels in it.
class PrimaryContext {
 public:
  /// CommError.
  explicit PrimaryContext(int ordinal);
  ~PrimaryContext();
  PrimaryContext(PrimaryContext&&) = delete;

  const Functions& driver() const { return driver_.functions; }
  Context get() const { return context_; }
  DeviceNumber device() const { return device_; }
  const Kernels& kernels() const { return kernels_; }
  unsigned num_processors() const { return num_processors_; }
  double limit_s() const { return driver_.release_limit_s; }

  /// Calls a function of the driver in this context. UsageError in a forked child.
  template <typename... Arguments, typename... Values>
  Result try_call(const Function<Arguments...>& function, Values... values) const {
    const Current current(*this);
    return function.call(values...);
  }

  /// The same; CommError unless it succeeds.
  template <typename... Arguments, typename... Values>
  void call(const Function<Arguments...>& function, Values... values) const {
    require(try_call(function, values...), function.name);
  }

  /// CommError unless the function has succeeded.
  void require(Result result, const char* function) const;

  /// Calls a function that releases something, for which many of them wait for the GPU. If that
  /// takes too long, a warning is written, and nothing of this context is released any more.
  template <typename... Arguments>
  void release(const Function<Arguments...>& function, Arguments... values) noexcept {
    // What is left behind may run until the process ends, so it owns what it uses.
    release_within_limit(function.name,
                         [context = context_, push = driver().ctx_push_current.call,
                          pop = driver().ctx_pop_current.call, call = function.call, values...] {
                           if (push(context) != kSuccess) return;
                           call(values...);
                           Context popped = nullptr;
                           pop(&popped);
                         });
  }

  /// Whether what is asked becomes true in the time that a destructor waits. If not, `complaint`
  /// begins the warning, and as above.
  bool becomes_true(const std::string& complaint, const std::function<bool()>& is_true) noexcept;

  /// "GPU 0"
  const std::string& name() const { return name_; }

 private:
  // While it lives, the context is that of this thread.
  class Current {
   public:
    explicit Current(const PrimaryContext& context);
    ~Current();
    Current(Current&&) = delete;

   private:
    const PrimaryContext& context_;
  };

  int attribute(int which) const;
  void load_kernels();
  void release_within_limit(const char* what, std::function<void()> call) noexcept;
  void abandon(const std::string& complaint) noexcept;

  std::string name_;  // for messages
  const Driver& driver_;
  DeviceNumber device_ = 0;
  Context context_ = nullptr;
  Module module_ = nullptr;
  Kernels kernels_{};
  unsigned num_processors_ = 1;
  std::atomic<bool> is_abandoned_{false};
};

}  // namespace tnt::comm::cuda
