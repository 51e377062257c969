#include "tnt/comm/device/context.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <thread>
#include <utility>

#include "tnt/comm/base/process.hpp"
#include "tnt/comm/base/waiting.hpp"
#include "tnt/comm/device/kernels_ptx.hpp"

namespace tnt::comm::cuda {
namespace {

// Of the kernels' text, times ten.
constexpr int kLeastCapability = 75;

const Driver& require_driver() {
  std::string reason;
  if (const Driver* driver = find_driver(reason)) return *driver;
  throw Error(ErrorKind::comm, reason);
}

}  // namespace

PrimaryContext::Current::Current(const PrimaryContext& context) : context_(context) {
  refuse_forked_child();
  context_.require(context_.driver().ctx_push_current.call(context_.context_), "cuCtxPushCurrent");
}

PrimaryContext::Current::~Current() {
  Context popped = nullptr;
  context_.driver().ctx_pop_current.call(&popped);
}

PrimaryContext::PrimaryContext(int ordinal)
    : name_(text("GPU ", ordinal)), driver_(require_driver()) {
  const Functions& functions = driver();
  require(functions.device_get.call(&device_, ordinal), functions.device_get.name);
  num_processors_ = static_cast<unsigned>(attribute(kMultiprocessorCount));
  const int major = attribute(kComputeCapabilityMajor), minor = attribute(kComputeCapabilityMinor);
  if (10 * major + minor < kLeastCapability) {
    throw Error(ErrorKind::comm, name_, " has compute capability ", major, ".", minor,
                ", but the kernels that sum need 7.5 (Turing) or later.");
  }
  require(functions.device_primary_ctx_retain.call(&context_, device_),
          functions.device_primary_ctx_retain.name);
  try {
    load_kernels();
  } catch (...) {
    functions.device_primary_ctx_release.call(device_);
    throw;
  }
}

PrimaryContext::~PrimaryContext() {
  release(driver().module_unload, module_);
  const auto& function = driver().device_primary_ctx_release;
  release_within_limit(function.name, [call = function.call, device = device_] { call(device); });
}

int PrimaryContext::attribute(int which) const {
  int value = 0;
  const auto& function = driver().device_get_attribute;
  require(function.call(&value, which, device_), function.name);
  return value;
}

void PrimaryContext::load_kernels() {
  call(driver().module_load_data, &module_, device::kKernelsPtx);
  const auto find = [this](const std::string& name) {
    Kernel kernel = nullptr;
    call(driver().module_get_function, &kernel, module_, name.c_str());
    return kernel;
  };
  constexpr std::array kCounts = {"2", "4", "8", "any"};
  for (std::size_t type = 0; type < Kernels::kNumTypes; ++type) {
    const std::string_view name = name_of(static_cast<DType>(type));
    for (std::size_t i = 0; i < kCounts.size(); ++i) {
      kernels_.sum[i][type] = find(text("sum_", kCounts[i], "_", name));
    }
    kernels_.scale[type] = find(text("scale_", name));
    if (type >= Kernels::kNumNarrow) continue;
    kernels_.narrow[type] = find(text("narrow_", name));
    kernels_.widen[type] = find(text("widen_", name));
  }
}

void PrimaryContext::require(Result result, const char* function) const {
  if (result == kSuccess) return;
  throw Error(ErrorKind::comm, name_, ": CUDA's ", function, " has failed with ",
              meaning_of(driver(), result), ".");
}

void PrimaryContext::abandon(const std::string& complaint) noexcept {
  if (is_abandoned_.exchange(true)) return;
  log_warning(0, complaint, " within ", driver_.release_limit_s,
              " s. What this process has of the GPU is kept until the process ends. [gpu-stuck]");
}

bool PrimaryContext::becomes_true(const std::string& complaint,
                                  const std::function<bool()>& is_true) noexcept {
  if (is_forked_child() || is_abandoned_) return false;
  const Deadline deadline(driver_.release_limit_s);
  for (std::chrono::microseconds pause(20); !is_true();
       pause = std::min(2 * pause, kLongestPause)) {
    if (deadline.is_over()) {
      abandon(complaint);
      return false;
    }
    std::this_thread::sleep_for(pause);
  }
  return true;
}

void PrimaryContext::release_within_limit(const char* what, std::function<void()> call) noexcept {
  if (is_forked_child() || is_abandoned_) return;
  const std::string complaint = text(name_, ": CUDA's ", what, " has not returned");
  try {
    const DetachableCall release("gpu-release", std::move(call));
    becomes_true(complaint, [&] { return release.has_returned(); });
  } catch (const std::exception&) {  // no more threads
    abandon(complaint);
  }
}

}  // namespace tnt::comm::cuda
